"""Documents (PDF, DOCX, XLSX, PPTX): their text, and the number of their pages, sheets or slides."""
