"""Matrix products as kernels of our own: passes that choose them, where they measure or are known faster."""
