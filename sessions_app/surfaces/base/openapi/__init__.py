"""The vocabulary in which surfaces describe their operations. Imported only when the document is built."""
