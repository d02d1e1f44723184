// expect: a report's mask has the rank of the piece that it marks elements of
#include <tessera/dsl.hpp>

using namespace tessera;

void kernel(Kernel& k, const Global<i32, 2>& ids, const Value<boolean, 1>& bad, const Value<i32, 1>& id) {
    k.report(bad, "an id is small", ids.block({8, 8}, {0, 0}), id);
}
