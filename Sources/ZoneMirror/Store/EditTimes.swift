import Foundation
import GRDB
import Records

/// The times at which properties were edited, for properties whose later edit wins.
///
/// Each device dates its edits by its own clock. A record stores the times in one field, as a JSON object from
/// property names to milliseconds since 1970. Properties of records without this field count as edited when the record
/// was saved. See MergePolicies.md, "Defaults and own rules".
struct EditTimes: Equatable {
    /// The field's name, without the prefix.
    static let name = "editTimes"

    /// Edit times in milliseconds since 1970, by property.
    private(set) var moments: [String: Int64]

    init(_ moments: [String: Int64] = [:]) { self.moments = moments }

    /// Reads the times from a record's field.
    init(_ field: FieldValue?) {
        guard case .string(let text)? = field,
            let moments = try? JSONDecoder().decode([String: Int64].self, from: Data(text.utf8))
        else {
            self.init()
            return
        }
        self.init(moments)
    }

    /// Reads the times of this device's unsent edits of an object.
    init(_ db: Database, of oid: String) throws {
        let statement = try db.cachedStatement(sql: "SELECT col, at FROM mirror_edit WHERE oid = ? AND at IS NOT NULL")
        let rows = try Row.fetchAll(statement, arguments: [oid])
        self.init(Dictionary(rows.map { ($0[0], $0[1]) }) { $1 })
    }

    subscript(property: String) -> Int64? { moments[property] }

    /// Returns the later of the two times for each property.
    func joined(with other: EditTimes) -> EditTimes { EditTimes(moments.merging(other.moments) { max($0, $1) }) }

    /// The times as a record's field, or `nil` if there are none.
    var field: FieldValue? {
        guard !moments.isEmpty else { return nil }
        let pairs = moments.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }
        return .string("{" + pairs.joined(separator: ",") + "}")
    }

    /// Returns the statement of a trigger that records an edit, whose time is set later.
    static func recording(_ id: String, _ column: String, when condition: String) -> String {
        // Not `OR REPLACE`: the conflict policy of the statement that fires the trigger, for example `OR IGNORE`, would
        // override it.
        """
        INSERT INTO mirror_edit(oid, col, at) SELECT \(id), \(column), NULL WHERE \(condition)
        ON CONFLICT(oid, col) DO UPDATE SET at = NULL;
        """
    }

    /// Returns the statement of a trigger that forgets an object's edits.
    static func forgetting(_ id: String) -> String { "DELETE FROM mirror_edit WHERE oid = \(id);" }

    /// Sets the time of edits that have none yet: those of this transaction, or those made by plain SQL and only
    /// noticed now.
    static func date(_ db: Database, _ now: Date) throws {
        try db.cachedStatement(sql: "UPDATE mirror_edit SET at = ? WHERE at IS NULL")
            .execute(arguments: [Int64(now.timeIntervalSince1970 * 1000)])
    }
}

extension Entity {
    /// Whether records of this entity store edit times.
    var keepsEditTimes: Bool {
        attributes.contains(where: \.lastEditWins) || relationships.contains { !$0.isToMany && $0.lastEditWins }
    }
}
