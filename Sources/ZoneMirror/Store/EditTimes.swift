import Foundation
import GRDB
import Records

/// When properties were edited, for those in which the later edit wins.
///
/// Each device's clock dates its own edits. The times stand in one field of the record, as JSON: properties' names with
/// milliseconds since 1970. Records of programs that keep no such times count as edited when they were saved.
/// See MergePolicies.md, "Defaults and own rules".
struct EditTimes: Equatable {
    /// The field's name, without a prefix.
    static let name = "editTimes"

    /// By property.
    private(set) var moments: [String: Int64]

    init(_ moments: [String: Int64] = [:]) { self.moments = moments }

    /// Of a record's field.
    init(_ field: FieldValue?) {
        guard case .string(let text)? = field,
            let moments = try? JSONDecoder().decode([String: Int64].self, from: Data(text.utf8))
        else {
            self.init()
            return
        }
        self.init(moments)
    }

    /// This device's own of an object.
    init(_ db: Database, of oid: String) throws {
        let statement = try db.cachedStatement(sql: "SELECT col, at FROM mirror_edit WHERE oid = ? AND at IS NOT NULL")
        let rows = try Row.fetchAll(statement, arguments: [oid])
        self.init(Dictionary(rows.map { ($0[0], $0[1]) }) { $1 })
    }

    subscript(property: String) -> Int64? { moments[property] }

    /// The later of both, property by property.
    func joined(with other: EditTimes) -> EditTimes { EditTimes(moments.merging(other.moments) { max($0, $1) }) }

    /// As a record's field; `nil` where there is nothing to say.
    var field: FieldValue? {
        guard !moments.isEmpty else { return nil }
        let pairs = moments.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }
        return .string("{" + pairs.joined(separator: ",") + "}")
    }

    /// Dates the edits that have no time yet: those of this transaction, or of plain SQL that is noticed now.
    static func date(_ db: Database, _ now: Date) throws {
        try db.cachedStatement(sql: "UPDATE mirror_edit SET at = ? WHERE at IS NULL")
            .execute(arguments: [Int64(now.timeIntervalSince1970 * 1000)])
    }
}

extension Entity {
    /// Whether its records say when properties were edited.
    var keepsEditTimes: Bool {
        attributes.contains(where: \.lastEditWins) || relationships.contains { !$0.isToMany && $0.lastEditWins }
    }
}
