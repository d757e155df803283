"""The integration and interpolation of integrands."""
