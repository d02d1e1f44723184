// expect: tessera: a report's value has the rank of its mask, or is a number
#include <tessera/dsl.hpp>

using namespace tessera;

void kernel(Kernel& k, const Global<i32, 2>& ids, const Value<boolean, 2>& bad, const Value<i32, 1>& id) {
    k.report(bad, "an id is small", ids.block({8, 8}, {0, 0}), id);
}
