/// Replaces the numbers that one store gave to users, types, zones and shares by those of another.
package final class MoveTranslation {
    private let sink: any MoveSink
    private var known: [MovedTable.Kind: [Int64: Int64]] = [:]

    package init(to sink: any MoveSink) { self.sink = sink }

    /// Returns the rows as the sink wants them; `reader` has read them.
    package func translate(_ rows: MovedRows, from reader: any MoveReader) throws -> MovedRows {
        let columns = rows.table.columns.enumerated().filter { $0.element.kind.isNumber }
            .map { (index: $0.offset, kind: $0.element.kind) }
        guard !columns.isEmpty else { return rows }
        var missing: [MovedTable.Kind: Set<Int64>] = [:]
        var latest = [Int64?](repeating: nil, count: columns.count)
        rows.forEach { row in
            for (place, column) in columns.enumerated() where !row.isNull(column.index) {
                let number = row.int(column.index)
                guard latest[place] != number else { continue }
                latest[place] = number
                if known[column.kind]?[number] == nil { missing[column.kind, default: []].insert(number) }
            }
        }
        for (kind, numbers) in missing { try learn(numbers, kind, from: reader) }
        var translated = rows
        var replacements: [(Int, Int64)] = []
        replacements.reserveCapacity(rows.count * columns.count)
        let maps = columns.map { known[$0.kind] ?? [:] }
        var cached = [(from: Int64, to: Int64)?](repeating: nil, count: columns.count)
        try rows.forEach { row in
            for (place, column) in columns.enumerated() where !row.isNull(column.index) {
                let number = row.int(column.index)
                if cached[place]?.from != number {
                    guard let new = maps[place][number] else {
                        throw MoveFailure(
                            .inconsistent,
                            "A row of \(rows.table.rawValue) refers to the \(column.kind) \(number), which does not exist."
                        )
                    }
                    cached[place] = (number, new)
                }
                if let new = cached[place]?.to { replacements.append((row.place(column.index), new)) }
            }
        }
        translated.replace(replacements)
        return translated
    }

    /// Returns the sink's numbers of these zones or shares.
    func numbers(of numbers: some Sequence<Int64>, _ kind: MovedTable.Kind, from reader: any MoveReader) throws
        -> [Int64: Int64]
    {
        let missing = Set(numbers.filter { known[kind]?[$0] == nil })
        if !missing.isEmpty { try learn(missing, kind, from: reader) }
        return known[kind] ?? [:]
    }

    /// Forgets all numbers, as after a transaction that was rolled back.
    func forget() { known = [:] }

    private func learn(_ numbers: Set<Int64>, _ kind: MovedTable.Kind, from reader: any MoveReader) throws {
        let names = try reader.names(of: numbers, kind)
        let new = try sink.numbers(of: Array(Set(names.values)), kind)
        for (number, name) in names {
            if let to = new[name] { known[kind, default: [:]][number] = to }
        }
    }
}

/// Why a move between stores stopped; the description is a sentence or more for the operator.
package struct MoveFailure: Error, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The rows contradict each other.
        case inconsistent
        /// Both stores differ after the copy.
        case different
        /// The target has other data.
        case occupied
        /// The source or the target must not be used for this now.
        case refused
    }

    package var code: Code
    package var description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
