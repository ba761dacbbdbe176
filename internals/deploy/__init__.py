"""Deployment: what a trained model must become to leave the program that trained it."""

from internals.deploy.errors import FormatError, SignatureError
from internals.deploy.saved import SavedModel, Signature, TensorSpec, load, save

__all__ = ["FormatError", "SavedModel", "Signature", "SignatureError", "TensorSpec", "load", "save"]
