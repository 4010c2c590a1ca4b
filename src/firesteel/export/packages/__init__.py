"""Packages: exported programs compiled ahead of time, which run without Python.

    weights.py      one safetensors file for all models
    archive.py      the zip file with its manifest
    packing.py      `package`
    loading.py      `load_package`
    firesteel_model.h   the C and C++ interface of the models in a package
"""
