"""The families of conformance kernels, one module each."""
