/* text: UTF-8, characters and tokenizers. This is the header for other folders. */
#ifndef LS_TEXT_H
#define LS_TEXT_H

#include "text/characters.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#endif
