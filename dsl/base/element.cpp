#include "dsl/base/element.hpp"

#include <cstring>

namespace tessera {

namespace {
constexpr const char* names[element_count] = {"f64",  "f32",  "tf32",  "f16", "bf16", "e5m2", "e4m3",
                                              "e5m6", "e2m1", "ue8m0", "i8",  "i16",  "i32",  "i64",
                                              "u8",   "u16",  "u32",   "u64", "bool"};
}

const char* name_of(Element e) { return names[static_cast<int>(e)]; }

bool parse_element(const char* name, Element& out) {
    for (int i = 0; i < element_count; ++i) {
        if (std::strcmp(names[i], name) == 0) {
            out = static_cast<Element>(i);
            return true;
        }
    }
    return false;
}

}  // namespace tessera
