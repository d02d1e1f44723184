#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::host {

/// By warp: the first of its epochs that is not known to be over; empty: nothing is known.
using Clock = std::vector<std::uint32_t>;

/// Who last touched each piece of a block's shared memory, and which of these accesses a barrier has put in order.
///
/// Vector clocks with a component for each warp: an earlier access of another thread is ordered before the present one
/// if the present warp has learned, at a barrier, that the other warp's epoch is over. Threads of one warp are ordered
/// by barriers only, too. Of the readers since the last write the latest two distinct threads of each team are kept: as
/// every barrier and arrival takes in whole teams, one of them conflicts with a later writer if any reader does. Of
/// those that add, the latest of each team is kept.
class SharedHistory {
public:
    /// `piece`: bytes that one record stands for; divides the size of every element. `teams`: by warp, the number
    /// of the team at whose barriers it meets others, from 0 without gaps; empty: all warps are one team.
    SharedHistory(std::size_t bytes, std::size_t piece, int threads, const std::vector<std::size_t>& teams = {});

    void begin_block();
    /// The warps of these threads meet.
    void barrier(int first_thread, int threads);
    /// What these threads know, and that what they have done so far is over, goes into the clock.
    void release(Clock& clock, int first_thread, int threads);
    /// These threads learn what the clock says.
    void acquire(const Clock& clock, int first_thread, int threads);

    struct Touch {
        std::uint32_t epoch = 0;
        std::uint16_t thread = 0;
        std::uint16_t access = 0;  // index into Code::accesses
    };
    enum class Verdict : std::uint8_t { fine, unwritten, after_write, after_read };
    struct Finding {
        Verdict verdict = Verdict::fine;
        std::size_t byte = 0;  // first piece in conflict
        Touch other;
    };
    Finding read(std::size_t byte, std::size_t bytes, int thread, std::size_t access);
    Finding write(std::size_t byte, std::size_t bytes, int thread, std::size_t access);
    /// A copy that write() has met is complete, and the thread that started it knows.
    void complete(std::size_t byte, std::size_t bytes, int thread, std::size_t access);
    /// An atomic addition: ordered like a read and a write, but not against other additions.
    Finding add(std::size_t byte, std::size_t bytes, int thread, std::size_t access);

    /// For what is kept elsewhere: a touch of now, and whether the thread comes after one.
    Touch now(int thread, std::size_t access) const;
    bool ordered(const Touch& t, int thread) const;

private:
    struct Team {
        Touch latest, earlier;  // readers
        Touch added;
    };
    struct Piece {
        Touch writer;
        Team team;                                                             // the first
        enum : std::uint8_t { stored, added, added_by_several } how = stored;  // since the last barrier
    };
    Team& team_at(std::size_t piece, std::size_t team) {
        return team == 0 ? pieces_[piece].team : more_[piece * more_teams_ + team - 1];
    }
    const Team& team_at(std::size_t piece, std::size_t team) const {
        return team == 0 ? pieces_[piece].team : more_[piece * more_teams_ + team - 1];
    }
    void write_to(std::size_t piece, const Touch& writer);
    void add_to(std::size_t piece, const Touch& touch);
    const Touch* unordered_reader(std::size_t piece, int thread) const;
    bool happened(const Touch& t) const { return t.epoch >= block_start_; }
    bool over(const Touch& t, int thread) const;
    bool writers_over(std::size_t piece, int thread) const;
    bool writer_ordered(std::size_t piece, int thread) const;
    void note_reader(std::size_t piece, const Touch& touch);
    std::uint32_t& known(std::size_t warp, std::size_t other) { return known_[warp * epochs_.size() + other]; }

    std::size_t piece_;
    std::vector<Piece> pieces_;
    std::vector<std::size_t> team_of_;   // by warp
    std::size_t more_teams_;             // past the first
    std::vector<Team> more_;             // [piece][team − 1]
    std::vector<std::uint32_t> epochs_;  // by warp
    std::vector<std::uint32_t> known_;   // [warp][other]: the other's first epoch that is not known to be over
    std::uint32_t block_start_ = 1;
};

}  // namespace tessera::host
