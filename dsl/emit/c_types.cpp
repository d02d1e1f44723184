#include "dsl/emit/c_types.hpp"

namespace tessera::emit {

const char* storage_type(Element e) {
    switch (e) {
        case Element::f64: return "double";
        case Element::f32:
        case Element::tf32: return "float";
        case Element::f16:
        case Element::bf16:
        case Element::u16: return "unsigned short";
        case Element::i8: return "signed char";
        case Element::i16: return "short";
        case Element::i32: return "int";
        case Element::i64: return "long long";
        case Element::u32: return "unsigned";
        case Element::u64: return "unsigned long long";
        default: return "unsigned char";
    }
}

const char* scalar_type(Element e) {
    if (e == boolean) return "bool";
    if (is_narrow_float(e)) return "unsigned";
    if (is_small_integer(e)) return is_signed_integer(e) ? "int" : "unsigned";
    return storage_type(e);
}

const char* word_type(Element e, int pack) { return pack > 1 || bits_of(e) < 32 ? "unsigned" : storage_type(e); }

}  // namespace tessera::emit
