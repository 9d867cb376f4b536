/* Where the build systems of GASNet's clients look whether this conduit is installed. */
#include <gasnet.h>
/* Below /usr this folder is searched before the one with gasnet.h, which then gets this file for
 * the one of the same name that it meant. */
#include "../gasnet_core.h"
