// Everything memreg offers; the only header of this folder that others include.
#pragma once

#include "memreg/account.hpp"
#include "memreg/arena.hpp"
#include "memreg/host_memory.hpp"
#include "memreg/lasting_heap.hpp"
#include "memreg/limits.hpp"
#include "memreg/program_heap.hpp"
#include "memreg/registrar.hpp"
#include "memreg/segment.hpp"
#include "memreg/temporary.hpp"
