#pragma once

namespace tessera::runtime {

/// From here on a child that this process forks is told apart. Called once the driver is initialised.
void arm_fork_guard();

/// True in a process forked from one whose guard was armed. Costs a load: a handler of fork sets it.
bool forked_after_use();

/// Throws UsageError in such a process: CUDA does not survive a fork.
void refuse_if_forked();

}  // namespace tessera::runtime
