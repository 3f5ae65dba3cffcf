"""Types of numpy arrays, by the numbers that they hold."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Samples = NDArray[np.complex64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
