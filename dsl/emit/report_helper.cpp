#include "dsl/emit/helpers.hpp"

namespace tessera::emit {

/// Two words of a record change at once, so that place and value belong together, and no order of blocks shows: the
/// lowest place stays. Nothing else of a kernel reads a record, so its other accesses need not wait.
Helper report_helper() {
    return {
        "report_first",
        R"(__device__ __forceinline__ void report_first(unsigned long long* record, unsigned long long place, unsigned long long value) {
    if (*(volatile unsigned long long*)record <= place) return;
    unsigned long long held_place = ~0ull, held_value = ~0ull, found_place, found_value;
    for (;;) {
        asm volatile("{ .reg .b128 found, held, mine; "
            "mov.b128 held, {%3, %4}; "
            "mov.b128 mine, {%5, %6}; "
            "atom.relaxed.gpu.global.cas.b128 found, [%2], held, mine; "
            "mov.b128 {%0, %1}, found; }"
            : "=l"(found_place), "=l"(found_value)
            : "l"(record), "l"(held_place), "l"(held_value), "l"(place), "l"(value));
        if (found_place <= place || (found_place == held_place && found_value == held_value)) return;
        held_place = found_place;
        held_value = found_value;
    }
}
)",
        {}};
}

}  // namespace tessera::emit
