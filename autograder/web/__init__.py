"""Grades, feedback and the book, served beside JupyterLab: same origin, same token."""

from autograder.web.extension import _jupyter_server_extension_points, _load_jupyter_server_extension

__all__ = ["_jupyter_server_extension_points", "_load_jupyter_server_extension"]
