import RelayCore

/// The copy of an owner, or of a container, from one store to another while the first one serves.
///
/// First `copy`, then `catchUp` as often as it takes until little changes in between. Then the caller makes the source
/// refuse writes, calls `catchUp` once more, and `finish`. Each step may be interrupted: a new `StoreMove` continues from
/// what the sink has.
///
/// Changed records are found by their numbers. What has none is compared row by row, as is whatever disappears without
/// leaving a tombstone: records of the public database, and tombstones that the source forgets. In a table with as many
/// rows as records only the counts are compared first, since the sink has all rows of the source by then.
package final class StoreMove {
    /// How the stores are compared after a step.
    package enum Comparison: Sendable {
        /// Not at all.
        case nothing
        /// What has just come row by row, small tables by their digests, and the others by their counts: for the time in
        /// which writes are refused, after `all` has found no difference.
        case changes
        /// Every table by its digest.
        case all
    }

    private let source: any MoveSource
    private let sink: any MoveSink
    private let tables: [MovedTable]
    private let translation: MoveTranslation
    private let recordsAtOnce: Int
    private let step: (MoveStep) throws -> Void
    /// The rows of small tables that the sink has: their hashes by their keys.
    private var kept: [MovedTable: [[UInt8]: UInt64]] = [:]
    /// How far the records of the sink go; `nil` if it has to be found out.
    private var position: MovePosition?
    private var entriesPosition: MovePosition?

    /// - Parameters:
    ///   - tables: `MovedTable.ofOwner`, `MovedTable.ofHome` or `MovedTable.ofRelay`.
    ///   - source: where the rows come from.
    ///   - sink: where they go to.
    ///   - recordsAtOnce: the number of records in one transaction of the first copy.
    ///   - step: called before each step, with what has been done; may throw, to interrupt.
    package init(
        _ tables: [MovedTable],
        from source: any MoveSource,
        to sink: any MoveSink,
        recordsAtOnce: Int = 50_000,
        step: @escaping (MoveStep) throws -> Void = { _ in }
    ) {
        self.tables = tables
        self.source = source
        self.sink = sink
        self.recordsAtOnce = recordsAtOnce
        self.step = step
        translation = MoveTranslation(to: sink)
    }

    // MARK: First copy

    /// Copies everything, or what is missing of a copy that was interrupted.
    package func copy() throws {
        try attempt { try source.readsInOrderOfChanges ? copyInOrder() : copyAtOnce() }
    }

    /// In several transactions, each with a snapshot of its own.
    private func copyInOrder() throws {
        var last: UInt64 = 0
        let goal = try source.read { reader in
            let facts = try reader.facts()
            try sink.transaction {
                try sink.begin(facts)
                last = try sink.greatestChange()
                try synchronize(tables.filter(\.isBeforeRecords), reader)
            }
            return try reader.position().number
        }
        // Rows that have come may have changed since.
        let isContinued = last > 0
        var copied: Int64 = 0
        while last < goal {
            try step(.records(copied))
            let selection = MoveSelection(after: MovePosition(number: last), upTo: goal, limit: recordsAtOnce)
            var count = 0
            try source.read { reader in
                try sink.transaction {
                    try reader.visit(.record, selection) { rows in
                        count += rows.count
                        rows.forEach { last = max(last, UInt64(bitPattern: $0.int(Self.changeColumn))) }
                        let translated = try translation.translate(rows, from: reader)
                        if isContinued { try sink.upsert(translated) } else { try sink.insert(translated) }
                    }
                }
            }
            copied += Int64(count)
            if count < recordsAtOnce { break }
        }
        try step(.records(copied))
        position = MovePosition(number: goal)
    }

    private static let changeColumn = 2

    /// In one transaction, which a source needs whose owners count their changes for themselves.
    private func copyAtOnce() throws {
        try step(.records(0))
        try source.read { reader in
            try sink.transaction {
                try sink.begin(try reader.facts())
                for table in tables.reversed() where table.isLarge { try sink.removeAll(table) }
                try synchronize(tables.filter(\.isBeforeRecords), reader)
                guard tables.contains(.record) else { return }
                var copied: Int64 = 0
                try reader.visit(.record, MoveSelection()) { rows in
                    try sink.insert(try translation.translate(rows, from: reader))
                    copied += Int64(rows.count)
                    try step(.records(copied))
                }
            }
            position = try reader.position()
        }
    }

    // MARK: Catching up

    /// Brings the sink to the present state of the source; returns how many records had changed.
    ///
    /// - Throws: `MoveFailure` with `different` if a comparison finds a difference.
    @discardableResult
    package func catchUp(comparing comparison: Comparison = .nothing) throws -> Int64 {
        try attempt {
            try source.read { reader in
                let reached = try reader.position()
                if position == nil {
                    let last = try sink.transaction { try sink.greatestChange() }
                    position = source.readsInOrderOfChanges && last > 0 ? MovePosition(number: last) : nil
                }
                guard let known = position else {
                    throw MoveFailure(.refused, "The first copy is not complete.")
                }
                try step(.changes)
                let changed = try sink.transaction {
                    try sink.begin(try reader.facts())
                    try synchronize(tables.filter(\.isBeforeRecords), reader)
                    let changed =
                        tables.contains(.record)
                        ? try applyRecords(after: known, reader, checks: comparison == .changes) : 0
                    for table in tables where table.isLarge && table != .record && table != .shareEntry {
                        try completeRelations(table, reader)
                    }
                    if tables.contains(.shareEntry) { try applyEntries(reader) }
                    try synchronize(tables.filter { !$0.isLarge && !$0.isBeforeRecords }, reader)
                    return changed
                }
                (position, entriesPosition) = (reached, reached)
                if comparison != .nothing {
                    try step(.comparison)
                    try compare(reader, comparison)
                }
                return changed
            }
        }
    }

    /// Ends the move in the sink; the source must have refused writes since before the last `catchUp`.
    package func finish() throws {
        try attempt {
            try step(.end)
            let facts = try source.read { try $0.facts() }
            try sink.transaction { try sink.finish(facts) }
        }
    }

    /// Nothing that was learned in a transaction is valid after its failure.
    private func attempt<Value>(_ body: () throws -> Value) throws -> Value {
        do { return try body() } catch {
            kept = [:]
            position = nil
            entriesPosition = nil
            translation.forget()
            throw error
        }
    }

    // MARK: Records

    private func applyRecords(after known: MovePosition, _ reader: any MoveReader, checks: Bool) throws -> Int64 {
        var changed: Int64 = 0
        try reader.visit(.record, MoveSelection(after: known)) { rows in
            changed += Int64(rows.count)
            let translated = try translation.translate(rows, from: reader)
            try updateRelations(from: try sink.existing(translated), to: translated)
            try sink.upsert(translated)
            if checks { try check(rows, reader, against: try sink.existing(translated)) }
        }
        try removeVanished(.record, reader)
        return changed
    }

    private func check(_ rows: MovedRows, _ reader: any MoveReader, against stored: MovedRows) throws {
        var (before, after) = (MoveDigest(), MoveDigest())
        try before.add(rows, from: reader, MoveNames())
        try after.add(stored, from: try sink.reader(), MoveNames())
        if before != after { throw Self.difference(["record"]) }
    }

    /// Replaces the references and the uses of assets of records.
    private func updateRelations(from old: MovedRows, to new: MovedRows) throws {
        var (references, uses) = (RelationRows(.reference), RelationRows(.assetUse))
        for (rows, isNew) in [(old, false), (new, true)] {
            try rows.forEach { row in
                try references.add(row, isNew: isNew)
                try uses.add(row, isNew: isNew)
            }
        }
        for relation in [references, uses] {
            try sink.delete(relation.rows(relation.old.subtracting(relation.new)))
            try sink.upsert(relation.rows(relation.new.subtracting(relation.old)))
        }
    }

    /// Copies all references or uses of assets, unless there are as many as there should be.
    private func completeRelations(_ table: MovedTable, _ reader: any MoveReader) throws {
        guard try reader.count(table) != sink.reader().count(table) else { return }
        try step(.relations)
        try sink.removeAll(table)
        try reader.visit(table, MoveSelection()) { rows in
            try sink.insert(try translation.translate(rows, from: reader))
        }
    }

    private func applyEntries(_ reader: any MoveReader) throws {
        guard let known = entriesPosition else {
            try sink.removeAll(.shareEntry)
            return try reader.visit(.shareEntry, MoveSelection()) { rows in
                try sink.insert(try translation.translate(rows, from: reader))
            }
        }
        try reader.visit(.shareEntry, MoveSelection(after: known)) { rows in
            try sink.upsert(try translation.translate(rows, from: reader))
        }
        try removeVanished(.shareEntry, reader)
    }

    /// Removes rows of the sink that the source has no more.
    private func removeVanished(_ table: MovedTable, _ reader: any MoveReader) throws {
        let stored = try sink.reader()
        guard try reader.count(table) != stored.count(table) else { return }
        let kind: MovedTable.Kind = table == .record ? .zone : .share
        let counts = try reader.counts(table)
        let numbers = try translation.numbers(of: counts.keys, kind, from: reader)
        var expected: [Int64: (group: Int64, count: Int64)] = [:]
        for (group, count) in counts {
            if let number = numbers[group] { expected[number] = (group, count) }
        }
        for (number, count) in try stored.counts(table) where expected[number]?.count != count {
            var there: Set<[UInt8]> = []
            if let group = expected[number]?.group {
                let keys = try translation.translate(try reader.keys(table, in: group), from: reader)
                keys.forEach { there.insert($0.key(table.keyCount)) }
            }
            var gone = MovedRows(of: table)
            try stored.keys(table, in: number).forEach { row in
                if !there.contains(row.key(table.keyCount)) { gone.append(row) }
            }
            if table == .record {
                try updateRelations(from: try sink.existing(gone), to: MovedRows(of: .record))
            }
            try sink.delete(gone)
        }
    }

    // MARK: Small tables

    /// Makes tables of the sink equal to the source's, row by row.
    ///
    /// Tables without numbers of the store may forbid rows that others refer to: what is gone goes first, in reverse order.
    private func synchronize(_ tables: [MovedTable], _ reader: any MoveReader) throws {
        let plain = tables.filter { table in !table.columns.contains { $0.kind.isNumber } }
        let changes = try plain.map { try difference(of: $0, reader) }
        for change in changes.reversed() { try sink.delete(change.gone) }
        for change in changes { try sink.upsert(change.changed) }
        for table in tables where !plain.contains(table) {
            let change = try difference(of: table, reader)
            try sink.delete(change.gone)
            try sink.upsert(change.changed)
        }
    }

    /// Returns the keys of rows that the source has no more, and the rows that are new or different.
    private func difference(of table: MovedTable, _ reader: any MoveReader) throws
        -> (gone: MovedRows, changed: MovedRows)
    {
        let count = table.keyCount
        var known: [[UInt8]: UInt64] = [:]
        if let kept = kept.removeValue(forKey: table) {
            known = kept
        } else {
            try sink.reader().visit(table, MoveSelection()) { rows in rows.forEach { known[$0.key(count)] = $0.hash } }
        }
        var found: [[UInt8]: UInt64] = [:]
        found.reserveCapacity(known.count)
        var (gone, changed) = (MovedRows(of: table), MovedRows(of: table))
        try reader.visit(table, MoveSelection()) { rows in
            try translation.translate(rows, from: reader).forEach { row in
                let (key, hash) = (row.key(count), row.hash)
                if known.removeValue(forKey: key) != hash { changed.append(row) }
                found[key] = hash
            }
        }
        for key in known.keys { gone.append(key: key) }
        kept[table] = found
        return (gone, changed)
    }

    // MARK: Comparison

    private func compare(_ reader: any MoveReader, _ comparison: Comparison) throws {
        var differing: [String] = []
        try sink.transaction {
            let stored = try sink.reader()
            let (names, storedNames) = (MoveNames(), MoveNames())
            for table in tables {
                if table.isLarge, comparison == .changes {
                    if try reader.count(table) != stored.count(table) { differing.append(table.rawValue) }
                } else if try MoveDigest.of(table, in: reader, names)
                    != MoveDigest.of(table, in: stored, storedNames)
                {
                    differing.append(table.rawValue)
                }
            }
        }
        if !differing.isEmpty { throw Self.difference(differing) }
    }

    private static func difference(_ tables: [String]) -> MoveFailure {
        MoveFailure(
            .different,
            "The copy differs from its source in \(tables.joined(separator: ", ")), so the source stays in use. Report this."
        )
    }
}

/// What a move does next.
package enum MoveStep: Hashable, Sendable {
    /// The first copy of records, of which so many have been copied.
    case records(Int64)
    /// All references or uses of assets.
    case relations
    /// What has changed meanwhile.
    case changes
    case comparison
    /// Epochs, and the next change number.
    case end
}

extension MovedTable {
    /// Whether records refer to its rows.
    fileprivate var isBeforeRecords: Bool {
        switch self {
        case .recordType, .recordField, .retiredField, .recordGrant, .role, .roleMember, .zone, .share: true
        default: false
        }
    }
}

extension MovedRows {
    /// Appends a row of which only the key is known.
    fileprivate mutating func append(key: [UInt8]) {
        beginRow()
        append(encoded: key)
        for _ in table.keyCount..<table.columns.count { appendNull() }
    }
}

/// Rows that follow from records.
private struct RelationRows {
    private let table: MovedTable
    /// Each row as the bytes of its columns.
    var old: Set<[UInt8]> = []
    var new: Set<[UInt8]> = []

    init(_ table: MovedTable) { self.table = table }

    /// Adds what follows from a row of `record`.
    mutating func add(_ row: MovedRow, isNew: Bool) throws {
        guard !row.bool(4) else { return }
        let fields = row.value(13)
        var rows = MovedRows(of: table)
        if table == .reference {
            let relations = RecordRelations(name: row.text(1), parent: row.optionalText(11), fields: Array(fields))
            for reference in try relations.references() {
                rows.beginRow()
                rows.append(row.int(0))
                rows.append(reference.target)
                rows.append(Int64(reference.kind.rawValue))
                rows.append(reference.source)
                rows.append(reference.field)
            }
        } else {
            // Decoding all fields would take most of the time.
            guard fields.contains(Self.assetSign) else { return }
            let relations = RecordRelations(name: row.text(1), parent: nil, fields: Array(fields))
            for (hash, size) in try relations.assets() {
                rows.beginRow()
                rows.append(row.int(0))
                rows.append(hash.bytes)
                rows.append(row.text(1))
                rows.append(size)
            }
        }
        rows.forEach { row in
            if isNew { new.insert(Array(row.bytes.dropFirst(2))) } else { old.insert(Array(row.bytes.dropFirst(2))) }
        }
    }

    /// The member that each stored asset has.
    private static let assetSign = Array("fileChecksum".utf8)

    func rows(_ set: Set<[UInt8]>) -> MovedRows {
        var rows = MovedRows(of: table)
        for row in set {
            rows.beginRow()
            rows.append(encoded: row)
        }
        return rows
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func contains(_ part: [UInt8]) -> Bool {
        guard let first = part.first, count >= part.count else { return false }
        for start in 0...count - part.count where self[start] == first {
            if self[start..<start + part.count].elementsEqual(part) { return true }
        }
        return false
    }
}
