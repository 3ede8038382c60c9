import ZoneTesting

extension Scenario {
    /// An action for linked mirrors.
    ///
    /// Few names are used again and again, so that conflicts are likely.
    func deedOfMirrors(_ random: inout SeededRandom.Generator) -> Step.Deed {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        let (program, record, turns) = (pick(programCount), pick(4), pick(60))
        switch pick(100) {
        case 0..<8: return .count(program: program)
        case 8..<40: return .relate(program: program, relation(pick(6), pick(4), pick(4), isEnd: pick(5) == 0))
        case 40..<60: return .delete(program: program, zone: pick(2), record: record)
        case 60..<68: return .edit(program: program, zone: 0, record: record, field: pick(2))
        case 68..<73: return .cut(program: program)
        case 73..<80: return .heal(program: program)
        case 80..<85: return .crash(program: program, turns: turns)
        case 85..<89: return .crashInFetch(program: program, turns: turns % 12)
        case 89, 90: return .dropSockets(program: program)
        case 91..<94 where isOnDisk: return relayDeed(pick(6), turns, &random)
        case 94: return .expireTokens
        case 95: return .fillQuota
        case 96: return .emptyQuota
        case 97: return .lower(.items(1 + turns % 3))
        default: return .relate(program: program, relation(pick(6), pick(4), pick(4), isEnd: true))
        }
    }

    private func relation(_ kind: Int, _ from: Int, _ to: Int, isEnd: Bool) -> Relation {
        Relation(kind: Relation.Kind.allCases[kind], from: from, to: to, isEnd: isEnd)
    }
}
