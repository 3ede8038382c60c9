import Foundation
import GRDB

/// Dates as rows hold them, without loss.
///
/// A column has the seconds since 1970, and a `Date` those since 2001, which can be finer. Where they are, the column has the
/// nearest number, `mirror_exact` has the rest, and rows in memory have the seconds since 2001 as a text that begins with "@".
/// What `mirror_exact` says counts only while the column has the number that it belongs to: plain SQL need not know of it.
enum ExactDate {
    /// A date's one form in memory: equal dates have equal values.
    static func value(_ date: Date) -> DatabaseValue {
        let seconds = date.timeIntervalSince1970
        let milliseconds = (seconds * 1000).rounded() / 1000
        for candidate in [milliseconds, seconds] where Date(timeIntervalSince1970: candidate) == date {
            return candidate.databaseValue
        }
        return "@\(date.timeIntervalSinceReferenceDate)".databaseValue
    }

    /// The date of a column; `nil` where it holds none.
    static func date(_ value: DatabaseValue) -> Date? {
        if case .string(let text) = value.storage {
            guard text.hasPrefix("@") else { return nil }
            return Double(text.dropFirst()).map { Date(timeIntervalSinceReferenceDate: $0) }
        }
        return Double.fromDatabaseValue(value).map { Date(timeIntervalSince1970: $0) }
    }

    /// Whether a date is finer than its column.
    static func isFiner(_ value: DatabaseValue) -> Bool {
        guard case .string = value.storage else { return false }
        return date(value) != nil
    }

    /// What a date's column has.
    static func inSQL(_ value: DatabaseValue) -> DatabaseValue {
        isFiner(value) ? date(value)?.timeIntervalSince1970.databaseValue ?? value : value
    }

    /// Reads a column in a `SELECT`.
    static func select(_ column: String, of table: String) -> String {
        let (name, own) = ("\(table.quoted).\(column.quoted)", "oid = \(table.quoted).id AND col = \(column.literal)")
        return "coalesce((SELECT exact FROM mirror_exact WHERE \(own) AND seconds = \(name)), \(name))"
    }
}

extension ColumnForm {
    var isDate: Bool { attribute?.type == .date }
}
