// Runs a model of a package on files of raw float32 numbers, and writes the results in the same form. No Python.
//
//     run_package PACKAGE MODEL RESULT INPUT...
//
// MODEL is a name, or "-" for the only one. INPUT is SHAPE:FILE, such as 2x3x224x224:image.bin; NAME=SHAPE:FILE changes
// a weight before the model runs. The tensors that the model returns go to RESULT.0, RESULT.1 and so on, and their
// shapes to the standard output. With @SECONDS in place of RESULT the model is run for so long instead, and the time of
// its fastest call is printed. A model for a GPU runs on the current one; inputs go there and results come back.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "firesteel_model.h"

static at::Tensor read_input(const std::string &text, const firesteel::Model &model) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw firesteel::Error("an input is SHAPE:FILE, not " + text);
  std::vector<int64_t> shape;
  std::stringstream sizes(text.substr(0, colon));
  for (std::string size; std::getline(sizes, size, 'x');) shape.push_back(std::atoll(size.c_str()));
  at::Tensor tensor = at::empty(shape, at::kFloat);
  std::ifstream file(text.substr(colon + 1), std::ios::binary);
  file.read(static_cast<char *>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (!file) throw firesteel::Error("cannot read " + text);
  const int gpu = model.device();
  return gpu < 0 ? tensor : tensor.to(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu)));
}

static void measure(const firesteel::Model &model, const std::vector<at::Tensor> &inputs, double seconds) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, spent = 0;
  while (spent < seconds) {
    const auto start = Clock::now();
    for (const at::Tensor &result : model.run(inputs))
      if (result.is_cuda() && result.numel()) result.flatten()[0].item();  // waits for the GPU
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    best = took < best ? took : best;
    spent += took;
  }
  std::cout << best * 1e3 << " ms\n";
}

int main(int count, char **words) {
  if (count < 4) {
    std::cerr << "usage: run_package PACKAGE MODEL RESULT INPUT...\n";
    return 2;
  }
  try {
    firesteel::Package package(words[1]);
    firesteel::Model model = package.model(std::string(words[2]) == "-" ? "" : words[2]);
    std::vector<at::Tensor> inputs;
    for (int i = 4; i < count; ++i) {
      const std::string word = words[i];
      const size_t equals = word.substr(0, word.find(':')).find('=');
      if (equals == std::string::npos)
        inputs.push_back(read_input(word, model));
      else
        model.update_weight(word.substr(0, equals), read_input(word.substr(equals + 1), model));
    }
    const std::string result = words[3];
    if (result[0] == '@') {
      measure(model, inputs, std::atof(result.c_str() + 1));
      return 0;
    }
    const std::vector<at::Tensor> outputs = model.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) continue;
      const at::Tensor dense = outputs[i].to(at::kCPU).contiguous();
      std::ofstream file(result + "." + std::to_string(i), std::ios::binary);
      file.write(static_cast<const char *>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
      std::cout << model.output_names()[i] << " " << dense.sizes() << "\n";
    }
  } catch (const firesteel::InputError &error) {
    std::cerr << "these inputs do not fit: " << error.what() << "\n";
    return 3;
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
