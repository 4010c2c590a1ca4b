"""The host program around kernels: what runs when a compiled graph is called."""
