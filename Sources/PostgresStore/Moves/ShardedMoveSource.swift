#if Postgres
    import Records
    import StoreKit

    /// A container whose owners are spread over several databases, as the source of one move.
    ///
    /// The numbers that the databases give to users, types, zones and shares are made different from each other. Change
    /// numbers are different anyway: each shard takes those of its own remainder.
    final class ShardedMoveSource: MoveSource {
        /// One of the databases.
        struct Part {
            /// The number of the shard, from 1.
            let shard: Int64
            let source: any MoveSource
            /// The number of the public database's owner there.
            let publicOwner: Int64
        }

        private let parts: [Part]

        /// The first part must be shard 1.
        init(_ parts: [Part]) { self.parts = parts }

        var readsInOrderOfChanges: Bool { false }

        func read<Result>(_ body: (any MoveReader) throws -> Result) throws -> Result { try read([], body) }

        /// Opens one state of each part in turn.
        private func read<Result>(
            _ open: [ShardedMoveReader.Part],
            _ body: (any MoveReader) throws -> Result
        ) throws -> Result {
            guard open.count < parts.count else { return try body(ShardedMoveReader(open)) }
            let part = parts[open.count]
            return try part.source.read { reader in
                try read(open + [.init(shard: part.shard, reader: reader, publicOwner: part.publicOwner)], body)
            }
        }
    }

    /// One state of each database of a container, read as one.
    private final class ShardedMoveReader: MoveReader {
        struct Part {
            let shard: Int64
            let reader: any MoveReader
            let publicOwner: Int64
        }

        private let parts: [Part]

        init(_ parts: [Part]) { self.parts = parts }

        // MARK: Numbers

        /// Numbers of all shards differ in their last bits.
        private static let shardBits: Int64 = 10

        private static func common(_ number: Int64, on shard: Int64) -> Int64 { number << shardBits | shard }

        private static func own(_ number: Int64) -> Int64 { number >> shardBits }

        private func part(of number: Int64) throws -> Part {
            let shard = number & (1 << Self.shardBits - 1)
            guard let part = parts.first(where: { $0.shard == shard }) else {
                throw MoveFailure(.inconsistent, "There is no shard \(shard).")
            }
            return part
        }

        /// Returns rows with numbers that are different on each shard, without those for which `keeps` returns `false`.
        private static func common(
            _ rows: MovedRows,
            on shard: Int64,
            keeps: (MovedRow) throws -> Bool
        ) rethrows -> MovedRows {
            var found = MovedRows(of: rows.table)
            found.reserve(rows.bytes.count)
            let kinds = rows.table.columns.map(\.kind)
            try rows.forEach { row in
                guard try keeps(row) else { return }
                found.beginRow()
                for (index, kind) in kinds.enumerated() {
                    if row.isNull(index) {
                        found.appendNull()
                    } else if kind.isNumber {
                        found.append(common(row.int(index), on: shard))
                    } else {
                        found.append(row.value(index).bindMemory(to: UInt8.self))
                    }
                }
            }
            return found
        }

        // MARK: Facts

        func facts() throws -> MoveFacts {
            let all = try parts.map { try $0.reader.facts() }
            guard var facts = all.first else { throw PostgresError.missing("shard 1") }
            facts.lastChange = all.map(\.lastChange).max() ?? 0
            // A token of an epoch is good as far as it is on every shard that knows the epoch.
            for epoch in Set(all.flatMap { [$0.epoch] + $0.endedEpochs.keys }) {
                facts.endedEpochs[epoch] = all.compactMap { known in
                    known.endedEpochs[epoch] ?? (known.epoch == epoch ? known.lastChange : nil)
                }.min()
            }
            if all.contains(where: { $0.endedEpochs[facts.epoch] != nil }) {
                // It goes on here and has ended elsewhere: tokens need one that is new for all.
                facts.epoch = all.reduce(1) { $0 &* 0x9E37_79B9_7F4A_7C15 ^ $1.epoch }
            } else {
                facts.endedEpochs[facts.epoch] = nil
            }
            return facts
        }

        func position() throws -> MovePosition {
            var position = MovePosition(number: 0)
            for part in parts {
                for (zone, last) in try part.reader.position().zones {
                    position.zones[Self.common(zone, on: part.shard)] = last
                }
            }
            return position
        }

        // MARK: Rows

        /// Whether shard 1 has all rows of a table.
        private static func isControl(_ table: MovedTable) -> Bool {
            switch table {
            case .subscription, .recordField, .retiredField, .recordGrant, .role, .roleMember, .transfer:
                true
            default: false
            }
        }

        private func parts(of table: MovedTable) -> ArraySlice<Part> {
            Self.isControl(table) ? parts.prefix(1) : parts[...]
        }

        func visit(_ table: MovedTable, _ selection: MoveSelection, _ body: (MovedRows) throws -> Void) throws {
            // A write to owners of several shards has an outcome on each, and a shard has the types that it uses.
            var known: Set<[UInt8]> = []
            for part in parts(of: table) {
                var own = selection
                if let after = selection.after {
                    own.after?.zones = [:]
                    for (zone, last) in after.zones where try self.part(of: zone).shard == part.shard {
                        own.after?.zones[Self.own(zone)] = last
                    }
                }
                try part.reader.visit(table, own) { rows in
                    let names = table == .doneWrite ? try part.reader.names(of: Self.people(in: rows), .user) : [:]
                    let found = Self.common(rows, on: part.shard) { row in
                        switch table {
                        // Each shard has a row for the public zone; that of shard 1 is the one in use.
                        case .zone: return part.shard == 1 || row.int(1) != part.publicOwner
                        case .doneWrite:
                            let name = names[row.int(0)] ?? ""
                            return known.insert(Array("\(name) \(row.text(1))".utf8)).inserted
                        case .signedWrite, .recordType: return known.insert(row.key(table.keyCount)).inserted
                        default: return true
                        }
                    }
                    if !found.isEmpty { try body(found) }
                }
            }
        }

        private static func people(in rows: MovedRows) -> Set<Int64> {
            var people: Set<Int64> = []
            rows.forEach { people.insert($0.int(0)) }
            return people
        }

        func names(of numbers: Set<Int64>, _ kind: MovedTable.Kind) throws -> [Int64: String] {
            var found: [Int64: String] = [:]
            for part in parts {
                let own = numbers.filter { $0 & (1 << Self.shardBits - 1) == part.shard }
                guard !own.isEmpty else { continue }
                for (number, name) in try part.reader.names(of: Set(own.map(Self.own)), kind) {
                    found[Self.common(number, on: part.shard)] = name
                }
            }
            return found
        }

        func count(_ table: MovedTable) throws -> Int64 {
            var count: Int64 = 0
            for part in parts(of: table) { count += try part.reader.count(table) }
            // The rows of the public zone on the other shards.
            return table == .zone ? count - Int64(parts.count - 1) : count
        }

        func counts(_ table: MovedTable) throws -> [Int64: Int64] {
            var counts: [Int64: Int64] = [:]
            for part in parts(of: table) {
                for (group, count) in try part.reader.counts(table) {
                    counts[Self.common(group, on: part.shard)] = count
                }
            }
            return counts
        }

        func keys(_ table: MovedTable, in group: Int64) throws -> MovedRows {
            let part = try part(of: group)
            return Self.common(try part.reader.keys(table, in: Self.own(group)), on: part.shard) { _ in true }
        }
    }
#endif
