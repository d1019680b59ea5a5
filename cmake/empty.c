/* Stands in for a folder that has no source file, so that its library target exists. */
typedef int ls_empty_translation_unit;
