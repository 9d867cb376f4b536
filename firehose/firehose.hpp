// Everything firehose offers; the only header of this folder that others include.
#pragma once

#include "firehose/changes.hpp"
#include "firehose/interpose.hpp"
#include "firehose/pool.hpp"
#include "firehose/remote.hpp"
