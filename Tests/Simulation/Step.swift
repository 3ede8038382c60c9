import ZoneTesting

/// One thing that somebody does in a run, at its time.
package struct Step: Hashable, Sendable, CustomStringConvertible {
    enum Deed: Hashable, Sendable {
        /// A program's user changes a field of a record, making the record where there is none.
        case edit(program: Int, zone: Int, record: Int, field: Int)
        case delete(program: Int, zone: Int, record: Int)
        /// The same field twice with a few turns in between, so that the second change meets the first one under way.
        case editTwice(program: Int, zone: Int, record: Int, turns: Int)
        case cut(program: Int)
        case heal(program: Int)
        case dropSockets(program: Int)
        /// The program ends after so many turns, and begins anew.
        case crash(program: Int, turns: Int)
        /// The program ends a few turns after the answer to its next fetch.
        case crashInFetch(program: Int, turns: Int)
        case restartRelay
        case killRelay(turns: Int)
        case expireTokens
        case fillQuota
        case emptyQuota
        /// Three records that always change together.
        case group(hand: Int, zone: Int)
        /// A record that two hands change at the same time, each on the version that it last saw.
        case race(record: Int)
        /// A family of records goes to the other zone.
        case move
        case makeZone(zone: Int)
        case deleteZone
        case share
        case join
        case remove
        case post(record: Int)
        case addField(program: Int, zone: Int, record: Int)
        /// A stranger asks for what is not theirs, and for what is not there.
        case pry
    }

    /// Milliseconds since the step before.
    var pause: Int64
    var deed: Deed
    /// Marks the values that this step writes.
    var number: Int

    package var description: String { "+\(pause) ms \(deed) #\(number)" }
}

extension Scenario {
    /// The steps of this seed.
    package func steps() -> [Step] {
        var random = SeededRandom(seed: seed ^ 0xC0FF_EE00).generator
        return (0..<stepCount).map { number in
            let isPatient = Int.random(in: 0..<20, using: &random) == 0
            let pause = Int64.random(in: 0...(isPatient ? 120_000 : 2_500), using: &random)
            return Step(pause: pause, deed: deed(&random), number: number)
        }
    }

    private func deed(_ random: inout SeededRandom.Generator) -> Step.Deed {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        let (program, zone, record) = (pick(hasMirrors ? 5 : 3), pick(2), pick(5))
        switch pick(100) {
        case 0..<30: return .edit(program: program, zone: zone, record: record, field: pick(2))
        case 30..<38: return .delete(program: program, zone: zone, record: record)
        case 38..<48: return .editTwice(program: program, zone: zone, record: record, turns: pick(60))
        case 48..<51: return .cut(program: program)
        case 51..<55: return .heal(program: program)
        case 55..<57: return .dropSockets(program: program)
        case 57..<60: return .crash(program: program, turns: pick(80))
        case 60..<64: return .crashInFetch(program: program, turns: pick(12))
        case 64..<66 where isOnDisk: return .restartRelay
        case 66..<69 where isOnDisk: return .killRelay(turns: pick(60))
        case 69: return .expireTokens
        case 70: return .fillQuota
        case 71: return .emptyQuota
        case 72..<80: return .group(hand: pick(2), zone: zone)
        case 80..<85: return .race(record: pick(2))
        case 85..<87: return .move
        case 87: return .makeZone(zone: zone)
        case 88: return .deleteZone
        case 89..<92: return .share
        case 92..<95: return .join
        case 95..<97: return .remove
        case 97: return .addField(program: program, zone: zone, record: record)
        case 98: return .pry
        default: return .post(record: record)
        }
    }
}
