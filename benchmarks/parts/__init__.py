"""The questions, one module each: `measure` answers with figures."""
