/* text: UTF-8 and tokenizers. The header for other folders. */
#ifndef LS_TEXT_H
#define LS_TEXT_H

#include "text/characters.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#endif
