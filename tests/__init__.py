"""The tests of acpwire and its generator, one module a module."""
