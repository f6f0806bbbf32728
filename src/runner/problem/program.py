"""Reads a problem in PyTorch for optloop: a file with `Model`, `get_inputs` and `get_init_inputs`, and tells what it computes.

Reads a line of JSON from standard input: the file's path, those of `shapes.py` and `problem.yaml` beside it if they are there, the text that
every oracle ends with, and the names of inputs whose contents the user gives. Writes a line of JSON to what was standard
output. Shapes come from tensors without numbers, so a problem may be larger than the memory. A few calls on small
tensors tell the rest.
"""

import sys

sys.path.pop(0)

import ast
import importlib.util
import inspect
import json
import keyword
import math
import os
import re
import time
import tokenize
import traceback
import warnings
from io import StringIO

answers = os.fdopen(os.dup(1), "w")
# What the file prints must not get among the answers.
os.dup2(2, 1)
warnings.simplefilter("ignore")
# Threads that spin between small calls take longer where others need the cores, too: 37 s in place of 18 s for ResNet-18, with two
# cores under a load of 7 (2026-11-30, `optloop import`).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Seconds for the search for dimensions. Sizes that are not examined by then stay as they are.
SEARCH_S = 60

# Bytes of the tensors of a call that is made.
CALL_BYTES = 1 << 29

# Parameters of a module that is made with its numbers, which tell how large they are.
MOST_PARAMETERS = 1 << 28

# Steps of a convolution or a pooling: an extent may be a fraction of a size.
MOST_STEP = 8

# Elements of a group of which each has a number of its own, such as the scale of quantized weights.
MOST_GROUP = 1024

# Names of C and CUDA that a kernel's parameter cannot have.
WORDS_OF_C = set(
    "auto bool break case char class const continue default delete do double else enum extern false float for friend goto "
    "half if inline int long namespace new operator private protected public register return short signed sizeof static "
    "struct switch template this true typedef typename union unsigned using virtual void volatile while".split()
)


class Refused(Exception):
    """Why a problem cannot be imported, in one sentence."""


def finish(**what):
    answers.write(json.dumps(what) + "\n")
    answers.flush()
    os._exit(0)


def described(error, file):
    text = str(error).strip().splitlines()
    said = type(error).__name__ + (": " + text[0] if text else "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError):
        said, lines = f"SyntaxError: {error.msg}", [error.lineno]
    return f"{said} (line {lines[-1]})" if lines else said


