#include "dsl/host/history.hpp"

#include <algorithm>

namespace tessera::host {

namespace {
constexpr int warp_size = 32;
std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / warp_size); }
}  // namespace

SharedHistory::SharedHistory(std::size_t bytes, std::size_t piece, int threads)
    : piece_(piece),
      pieces_((bytes + piece - 1) / piece),
      epochs_(warp_of(threads - 1) + 1, 1),
      known_(epochs_.size() * epochs_.size(), 1) {}

void SharedHistory::begin_block() {
    std::uint32_t last = 0;
    for (std::uint32_t e : epochs_) last = std::max(last, e);
    if (last >= 0x80000000u) {  // epochs never run out: start anew
        std::fill(pieces_.begin(), pieces_.end(), Piece{});
        last = 0;
    }
    block_start_ = last + 1;
    std::fill(epochs_.begin(), epochs_.end(), block_start_);
    std::fill(known_.begin(), known_.end(), block_start_);
}

void SharedHistory::barrier(int first_thread, int threads) {
    const std::size_t begin = warp_of(first_thread), end = warp_of(first_thread + threads - 1) + 1;
    for (std::size_t w = begin; w < end; ++w) known(begin, w) = ++epochs_[w];
    for (std::size_t other = 0; other < epochs_.size(); ++other) {
        std::uint32_t best = 0;
        for (std::size_t w = begin; w < end; ++w) best = std::max(best, known(w, other));
        for (std::size_t w = begin; w < end; ++w) known(w, other) = best;
    }
}

/// Whether the thread has learned at a barrier that the touch's epoch has passed.
bool SharedHistory::over(const Touch& t, int thread) const {
    return t.thread == everybody || t.epoch < known_[warp_of(thread) * epochs_.size() + warp_of(t.thread)];
}

bool SharedHistory::ordered(const Touch& t, int thread) const { return t.thread == thread || over(t, thread); }

/// Of several that have added only the last is known: nobody comes after them without a barrier.
bool SharedHistory::writer_ordered(const Piece& piece, int thread) const {
    return piece.how == Piece::added_by_several ? over(piece.writer, thread) : ordered(piece.writer, thread);
}

SharedHistory::Touch SharedHistory::now(int thread, std::size_t access) const {
    return {epochs_[warp_of(thread)], static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(access)};
}

void SharedHistory::note_reader(Piece& piece, const Touch& touch) const {
    if (piece.earlier_reader.thread == touch.thread && happened(piece.earlier_reader)) {
        piece.earlier_reader = touch;
        return;
    }
    if (happened(piece.reader) && piece.reader.thread != touch.thread) piece.earlier_reader = piece.reader;
    piece.reader = touch;
}

SharedHistory::Finding SharedHistory::read(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        Piece& piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        if (!writer_ordered(piece, thread)) return {Verdict::after_write, p * piece_, piece.writer};
        note_reader(piece, touch);
    }
    return {};
}

SharedHistory::Finding SharedHistory::write(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        Piece& piece = pieces_[p];
        if (happened(piece.writer) && !writer_ordered(piece, thread))
            return {Verdict::after_write, p * piece_, piece.writer};
        for (const Touch& reader : {piece.reader, piece.earlier_reader})
            if (happened(reader) && !ordered(reader, thread)) return {Verdict::after_read, p * piece_, reader};
        piece = {touch, {}, {}};
    }
    return {};
}

void SharedHistory::complete(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    set_writer(byte, bytes, now(thread, access));
}

void SharedHistory::publish(std::size_t byte, std::size_t bytes, std::size_t access) {
    set_writer(byte, bytes, {epochs_[0], everybody, static_cast<std::uint16_t>(access)});
}

void SharedHistory::set_writer(std::size_t byte, std::size_t bytes, const Touch& writer) {
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) pieces_[p] = {writer, {}, {}};
}

SharedHistory::Finding SharedHistory::add(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        Piece& piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        const bool alone = writer_ordered(piece, thread);
        if (!alone && piece.how == Piece::stored) return {Verdict::after_write, p * piece_, piece.writer};
        for (const Touch& reader : {piece.reader, piece.earlier_reader})
            if (happened(reader) && !ordered(reader, thread)) return {Verdict::after_read, p * piece_, reader};
        // What the thread itself has stored since the last barrier, the others must still wait for.
        if (over(piece.writer, thread))
            piece = {touch, {}, {}, Piece::added};
        else if (piece.how != Piece::stored)
            piece = {touch, {}, {}, alone ? piece.how : Piece::added_by_several};
    }
    return {};
}

}  // namespace tessera::host
