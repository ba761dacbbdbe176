"""Saved models: a directory that can be loaded and run without the code that made it."""

from internals.deploy.saved.model import BoundSignature, SavedModel, load, save
from internals.deploy.saved.module import LoadedModule
from internals.deploy.saved.signature import Signature, TensorSpec

__all__ = ["BoundSignature", "LoadedModule", "SavedModel", "Signature", "TensorSpec", "load", "save"]
