/* Where the build systems of GASNet's clients look whether this conduit is installed. */
#include <gasnet.h>
