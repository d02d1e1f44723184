#include <cmath>

#include "reference/mhc.hpp"

namespace tessera::mhc_reference {

namespace {

double at(const Numbers& v, std::int64_t i) { return static_cast<double>(v[static_cast<std::size_t>(i)]); }

/// A sum with the magnitudes of its terms.
struct Sum {
    double value = 0, size = 0;
    void add(double term) { value += term, size += std::fabs(term); }
};
void put(Exact& e, std::int64_t i, const Sum& s) { e.set(i, s.value, s.size); }

}  // namespace

Exact post(const Extents& e, const Post& in) {
    Exact out(e.n * e.m * e.h);
    for (std::int64_t t = 0; t < e.n; ++t)
        for (std::int64_t o = 0; o < e.m; ++o)
            for (std::int64_t c = 0; c < e.h; ++c) {
                Sum s;
                s.add(at(in.post, t * e.m + o) * at(in.y, t * e.h + c));
                for (std::int64_t i = 0; i < e.m; ++i)
                    s.add(at(in.comb, (t * e.m + i) * e.m + o) * at(in.residual, (t * e.m + i) * e.h + c));
                put(out, (t * e.m + o) * e.h + c, s);
            }
    return out;
}

PostGradients post_gradients(const Extents& e, const Post& in, const Numbers& g, const Numbers& old) {
    const std::int64_t m = e.m, h = e.h;
    PostGradients out{Exact(e.n * h), Exact(e.n * m * h), Exact(e.n * m), Exact(e.n * m * m)};
    const auto grad = [&](std::int64_t t, std::int64_t o, std::int64_t c) { return at(g, (t * m + o) * h + c); };
    for (std::int64_t t = 0; t < e.n; ++t) {
        for (std::int64_t c = 0; c < h; ++c) {
            Sum dy;
            for (std::int64_t o = 0; o < m; ++o) dy.add(at(in.post, t * m + o) * grad(t, o, c));
            put(out.y, t * h + c, dy);
            for (std::int64_t i = 0; i < m; ++i) {
                Sum dr;
                if (!old.empty()) dr.add(at(old, (t * m + i) * h + c));
                for (std::int64_t o = 0; o < m; ++o) dr.add(at(in.comb, (t * m + i) * m + o) * grad(t, o, c));
                put(out.residual, (t * m + i) * h + c, dr);
            }
        }
        for (std::int64_t o = 0; o < m; ++o) {
            Sum dpost;
            for (std::int64_t c = 0; c < h; ++c) dpost.add(at(in.y, t * h + c) * grad(t, o, c));
            put(out.post, t * m + o, dpost);
            for (std::int64_t i = 0; i < m; ++i) {
                Sum dcomb;
                for (std::int64_t c = 0; c < h; ++c) dcomb.add(at(in.residual, (t * m + i) * h + c) * grad(t, o, c));
                put(out.comb, (t * m + i) * m + o, dcomb);
            }
        }
    }
    return out;
}

Exact apply(const Extents& e, const Numbers& residual, const Numbers& mix) {
    Exact out(e.n * e.h);
    for (std::int64_t t = 0; t < e.n; ++t)
        for (std::int64_t c = 0; c < e.h; ++c) {
            Sum s;
            for (std::int64_t i = 0; i < e.m; ++i) s.add(at(mix, t * e.m + i) * at(residual, (t * e.m + i) * e.h + c));
            put(out, t * e.h + c, s);
        }
    return out;
}

ApplyGradients apply_gradients(const Extents& e, const Numbers& residual, const Numbers& mix, const Numbers& g,
                               const Numbers& old) {
    ApplyGradients out{Exact(e.n * e.m * e.h), Exact(e.n * e.m)};
    for (std::int64_t row = 0; row < e.n * e.m; ++row) {
        Sum dmix;
        for (std::int64_t c = 0; c < e.h; ++c) {
            const double gradient = at(g, row / e.m * e.h + c);
            dmix.add(gradient * at(residual, row * e.h + c));
            Sum dr;
            if (!old.empty()) dr.add(at(old, row * e.h + c));
            dr.add(at(mix, row) * gradient);
            put(out.residual, row * e.h + c, dr);
        }
        put(out.mix, row, dmix);
    }
    return out;
}

}  // namespace tessera::mhc_reference
