/* Run models that firesteel compiled ahead of time, from C or C++, without Python.
 *
 * C++ (needs nothing beyond this header, libtorch and -ldl):
 *
 *     #include <ATen/ATen.h>
 *     #include "firesteel_model.h"
 *
 *     firesteel::Package package("resnet18.fsp");
 *     firesteel::Model model = package.model();
 *     std::vector<at::Tensor> results = model.run(std::vector<at::Tensor>{at::rand({1, 3, 224, 224})});
 *
 * A model that was exported on a GPU runs on GPUs like that one: its inputs are tensors there, package.model("", 1)
 * loads it to the GPU with the number 1, and work goes to the current stream of libtorch. Link libtorch with CUDA.
 *
 * C: take model.so and weights.safetensors out of the package (it is a zip file), link the first or load it with
 * dlopen, and call the functions below. All of them may be called from several threads at once, except that a model
 * must not be freed, or its weights be changed, while it runs. A model that changes its own buffers runs in one thread
 * at a time.
 */
#ifndef FIRESTEEL_MODEL_H
#define FIRESTEEL_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct firesteel_model firesteel_model;

enum firesteel_kind {
  FIRESTEEL_NONE = 0,
  FIRESTEEL_TENSOR = 1,  /* as.tensor is an AtenTensorHandle, which is an at::Tensor* */
  FIRESTEEL_INTEGER = 2, /* as.integer */
  FIRESTEEL_NUMBER = 3,  /* as.number */
  FIRESTEEL_TRUTH = 4    /* as.integer is 0 or 1 */
};

typedef struct firesteel_value {
  int32_t kind;
  int32_t reserved;
  union {
    void *tensor;
    int64_t integer;
    double number;
  } as;
} firesteel_value;

enum firesteel_status {
  FIRESTEEL_OK = 0,
  FIRESTEEL_FAILED = 1, /* firesteel_last_error says why */
  FIRESTEEL_REFUSED = 2 /* the inputs are not what the model was exported for */
};

/* The interface that a shared object was made for; this header describes version 1. */
int32_t firesteel_interface_version(void);

/* What went wrong last in this thread. */
const char *firesteel_last_error(void);

/* Load the weights from a safetensors file that begins `offset` bytes into the file at `path`. */
int32_t firesteel_model_load(const char *path, int64_t offset, firesteel_model **result);

/* The same for a model that runs on a GPU: `device` says which one; the function above, and -1, take the current one.
 * Models for the CPU do not look at it. */
int32_t firesteel_model_load_on(const char *path, int64_t offset, int32_t device, firesteel_model **result);

/* The number of the GPU that a model runs on; -1 for a model on the CPU. */
int32_t firesteel_model_device(const firesteel_model *model);

/* Run a model. Input tensors stay the caller's. Output tensors are new handles that belong to the caller, who deletes
 * them with aoti_torch_delete_tensor_object, or takes over the at::Tensor behind them. */
int32_t firesteel_model_run(firesteel_model *model, const firesteel_value *inputs, int64_t num_inputs,
                            firesteel_value *outputs, int64_t num_outputs);

/* Copy a tensor (an AtenTensorHandle) to a weight of the same shape and dtype. The file of weights does not change.
 * After the last one call firesteel_model_refresh, which computes anew what the model keeps of its weights. */
int32_t firesteel_model_update_weight(firesteel_model *model, const char *name, void *tensor);
int32_t firesteel_model_refresh(firesteel_model *model);

void firesteel_model_free(firesteel_model *model);

/* Inputs and outputs are flat, in the order in which the original module's arguments and results hold them. Inputs that
 * are the same in every call (None, strings, numbers) are left out. */
int64_t firesteel_model_num_inputs(void);
int64_t firesteel_model_num_outputs(void);
int64_t firesteel_model_num_weights(void);
const char *firesteel_model_input_name(int64_t index);
const char *firesteel_model_output_name(int64_t index);
const char *firesteel_model_weight_name(int64_t index);

/* The model's inputs, outputs and shape contract, as JSON. */
const char *firesteel_model_description(void);

#ifdef __cplusplus
} /* extern "C" */

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace firesteel {

/* An error of a package or of a model. */
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/* Inputs that a model was not exported for. */
class InputError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/* The shared object of a model, loaded. */
class Library {
 public:
  explicit Library(const std::vector<char> &code) {
    const char *folder = std::getenv("TMPDIR");
    std::string name = std::string(folder && *folder ? folder : "/tmp") + "/firesteel_XXXXXX";
    int file = mkstemp(&name[0]);
    if (file < 0) throw Error("cannot write a temporary file in the folder of " + name);
    size_t written = 0;
    while (written < code.size()) {
      ssize_t count = write(file, code.data() + written, code.size() - written);
      if (count <= 0) break;
      written += static_cast<size_t>(count);
    }
    close(file);
    if (written == code.size()) handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string problem = handle_ ? "" : written == code.size() ? dlerror() : "the disk is full";
    unlink(name.c_str());
    if (!handle_) throw Error("cannot load the machine code of a model: " + problem);
    if (get<int32_t (*)()>("firesteel_interface_version")() != 1)
      throw Error("the package was made for another version of this header");
  }
  /* The code stays in memory: tensors that came from it may still be in use. */
  template <class Function>
  Function get(const char *name) const {
    void *found = dlsym(handle_, name);
    if (!found) throw Error(std::string("the machine code of a model has no function ") + name);
    return reinterpret_cast<Function>(found);
  }

 private:
  void *handle_ = nullptr;
};

struct Part {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/* Where the parts of a zip file are. They are not compressed. */
inline std::map<std::string, Part> read_zip(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw Error("cannot open " + path);
  const uint64_t length = static_cast<uint64_t>(file.tellg());
  auto bad = [&path]() { return Error(path + " is damaged or not a package"); };
  auto read = [&](uint64_t offset, uint64_t size) {
    if (size > length || offset > length - size) throw bad();
    std::string data(size, '\0');
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(&data[0], static_cast<std::streamsize>(size));
    if (!file) throw bad();
    return data;
  };
  auto number = [&](const std::string &data, size_t at, int bytes) {
    if (at + static_cast<size_t>(bytes) > data.size()) throw bad();
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(data[at + i]);
    return value;
  };
  const uint64_t tail_length = length < 65557 ? length : 65557;
  const std::string tail = read(length - tail_length, tail_length);
  const size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string::npos) throw bad();
  uint64_t count = number(tail, end + 10, 2), size = number(tail, end + 12, 4), start = number(tail, end + 16, 4);
  if (count == 0xFFFF || size == 0xFFFFFFFF || start == 0xFFFFFFFF) {
    if (end < 20 || tail.compare(end - 20, 4, "PK\x06\x07")) throw bad();
    const std::string large = read(number(tail, end - 20 + 8, 8), 56);
    count = number(large, 32, 8), size = number(large, 40, 8), start = number(large, 48, 8);
  }
  const std::string directory = read(start, size);
  std::map<std::string, Part> parts;
  size_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (number(directory, at, 4) != 0x02014B50 || number(directory, at + 10, 2) != 0) throw bad();
    uint64_t bytes = number(directory, at + 24, 4), header = number(directory, at + 42, 4);
    const size_t name = number(directory, at + 28, 2), extra = number(directory, at + 30, 2);
    const size_t comment = number(directory, at + 32, 2);
    if (at + 46 + name + extra > directory.size()) throw bad();
    for (size_t field = at + 46 + name; field + 4 <= at + 46 + name + extra;) {
      size_t value = field + 4;
      if (number(directory, field, 2) == 1) {
        if (bytes == 0xFFFFFFFF) bytes = number(directory, value, 8), value += 16;
        if (header == 0xFFFFFFFF) header = number(directory, value, 8);
      }
      field += 4 + number(directory, field + 2, 2);
    }
    const std::string local = read(header, 30);
    if (number(local, 0, 4) != 0x04034B50) throw bad();
    Part part;
    part.offset = header + 30 + number(local, 26, 2) + number(local, 28, 2);
    part.size = bytes;
    if (part.size > length || part.offset > length - part.size) throw bad();
    parts[directory.substr(at + 46, name)] = part;
    at += 46 + name + extra + comment;
  }
  return parts;
}

}  // namespace detail

/* A loaded model. */
class Model {
 public:
  Model(std::shared_ptr<detail::Library> library, const std::string &weights, uint64_t offset, int device = -1)
      : library_(std::move(library)),
        run_(library_->get<decltype(&firesteel_model_run)>("firesteel_model_run")),
        error_(library_->get<decltype(&firesteel_last_error)>("firesteel_last_error")) {
    firesteel_model *model = nullptr;
    const int64_t start = static_cast<int64_t>(offset);
    check(device < 0 ? library_->get<decltype(&firesteel_model_load)>("firesteel_model_load")(
                           weights.c_str(), start, &model)
                     : library_->get<decltype(&firesteel_model_load_on)>("firesteel_model_load_on")(
                           weights.c_str(), start, device, &model));
    model_ = std::shared_ptr<firesteel_model>(
        model, library_->get<decltype(&firesteel_model_free)>("firesteel_model_free"));
  }

  /* Run on tensors: Tensor is at::Tensor (torch::Tensor). Throws InputError or Error. */
  template <class Tensor>
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) const {
    std::vector<firesteel_value> given(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      given[i].kind = FIRESTEEL_TENSOR;
      given[i].as.tensor = const_cast<Tensor *>(&inputs[i]);
    }
    std::vector<firesteel_value> made = run_values(given);
    std::vector<Tensor> results(made.size());
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].kind == FIRESTEEL_TENSOR) {
        std::unique_ptr<Tensor> taken(static_cast<Tensor *>(made[i].as.tensor));
        results[i] = std::move(*taken);
      }
    }
    return results;
  }

  /* Run on values of any kind. Tensors among the results belong to the caller. */
  std::vector<firesteel_value> run_values(const std::vector<firesteel_value> &inputs) const {
    std::vector<firesteel_value> outputs(static_cast<size_t>(num_outputs()));
    check(run_(model_.get(), inputs.data(), static_cast<int64_t>(inputs.size()), outputs.data(),
               static_cast<int64_t>(outputs.size())));
    return outputs;
  }

  /* Change a weight: `tensor` is an at::Tensor of its shape and dtype. */
  template <class Tensor>
  void update_weight(const std::string &name, const Tensor &tensor) {
    check(library_->get<decltype(&firesteel_model_update_weight)>("firesteel_model_update_weight")(
        model_.get(), name.c_str(), const_cast<Tensor *>(&tensor)));
    check(library_->get<decltype(&firesteel_model_refresh)>("firesteel_model_refresh")(model_.get()));
  }

  /* The number of the GPU that the model runs on; -1 on the CPU. */
  int device() const {
    return library_->get<decltype(&firesteel_model_device)>("firesteel_model_device")(model_.get());
  }
  int64_t num_inputs() const { return count("firesteel_model_num_inputs"); }
  int64_t num_outputs() const { return count("firesteel_model_num_outputs"); }
  std::vector<std::string> input_names() const { return names("input"); }
  std::vector<std::string> output_names() const { return names("output"); }
  std::vector<std::string> weight_names() const { return names("weight"); }
  std::string description() const {
    return library_->get<decltype(&firesteel_model_description)>("firesteel_model_description")();
  }

 private:
  void check(int32_t status) const {
    if (status == FIRESTEEL_REFUSED) throw InputError(error_());
    if (status != FIRESTEEL_OK) throw Error(error_());
  }
  int64_t count(const char *name) const { return library_->get<int64_t (*)()>(name)(); }
  std::vector<std::string> names(const std::string &kind) const {
    std::vector<std::string> found;
    auto name = library_->get<const char *(*)(int64_t)>(("firesteel_model_" + kind + "_name").c_str());
    for (int64_t i = 0; i < count(("firesteel_model_num_" + kind + "s").c_str()); ++i) found.push_back(name(i));
    return found;
  }

  std::shared_ptr<detail::Library> library_;
  std::shared_ptr<firesteel_model> model_;
  decltype(&firesteel_model_run) run_;
  decltype(&firesteel_last_error) error_;
};

/* A file that firesteel's `package` made. */
class Package {
 public:
  explicit Package(std::string path) : path_(std::move(path)), parts_(detail::read_zip(path_)) {
    if (!parts_.count("manifest.json")) throw Error(path_ + " is not a package of firesteel");
  }

  std::vector<std::string> model_names() const {
    std::vector<std::string> names;
    for (const auto &part : parts_) {
      const std::string &name = part.first;
      if (name.compare(0, 7, "models/") == 0 && name.size() > 16) names.push_back(name.substr(7, name.size() - 16));
    }
    return names;
  }

  /* Load a model; without a name, the only one. A model for a GPU goes to the current one, or to the given one. */
  Model model(std::string name = "", int device = -1) const {
    const std::vector<std::string> names = model_names();
    if (name.empty()) {
      if (names.size() != 1) throw Error(path_ + " has several models: say which");
      name = names[0];
    }
    auto found = parts_.find("models/" + name + "/model.so");
    if (found == parts_.end()) throw Error(path_ + " has no model " + name);
    std::vector<char> code(found->second.size);
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(found->second.offset));
    file.read(code.data(), static_cast<std::streamsize>(code.size()));
    if (!file) throw Error(path_ + " is damaged");
    auto weights = parts_.find("weights.safetensors");
    return Model(std::make_shared<detail::Library>(code), path_,
                 weights == parts_.end() ? 0 : weights->second.offset, device);
  }

 private:
  std::string path_;
  std::map<std::string, detail::Part> parts_;
};

}  // namespace firesteel

#endif /* __cplusplus */
#endif /* FIRESTEEL_MODEL_H */
