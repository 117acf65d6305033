"""The shim `bash/gpualert`, driven from outside in each shell it promises to run in."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.world", f"{__name__}.records")
