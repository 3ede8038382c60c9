import Foundation
import GRDB

/// Stores dates in rows without loss of precision.
///
/// A column stores the seconds since 1970, while a `Date` has the seconds since 2001, which can be more precise. In
/// that case the column has the nearest number, and `mirror_exact` has the exact value. Rows in memory have the
/// seconds since 2001 as a text that begins with "@". An entry of `mirror_exact` is valid only while the column has
/// the number it belongs to, so plain SQL need not know of it.
enum ExactDate {
    /// Returns a date's value in memory, which is the same for equal dates.
    static func value(_ date: Date) -> DatabaseValue {
        let seconds = date.timeIntervalSince1970
        let milliseconds = (seconds * 1000).rounded() / 1000
        for candidate in [milliseconds, seconds] where Date(timeIntervalSince1970: candidate) == date {
            return candidate.databaseValue
        }
        return "@\(date.timeIntervalSinceReferenceDate)".databaseValue
    }

    /// Returns the date of a column's value; `nil` if it is not a date.
    static func date(_ value: DatabaseValue) -> Date? {
        if case .string(let text) = value.storage {
            guard text.hasPrefix("@") else { return nil }
            return Double(text.dropFirst()).map { Date(timeIntervalSinceReferenceDate: $0) }
        }
        return Double.fromDatabaseValue(value).map { Date(timeIntervalSince1970: $0) }
    }

    /// Returns whether a date is more precise than its column.
    static func isFiner(_ value: DatabaseValue) -> Bool {
        guard case .string = value.storage else { return false }
        return date(value) != nil
    }

    /// Returns the value to store in a date's column.
    static func inSQL(_ value: DatabaseValue) -> DatabaseValue {
        isFiner(value) ? date(value)?.timeIntervalSince1970.databaseValue ?? value : value
    }

    /// Returns the SQL expression that reads a date column exactly.
    static func select(_ column: String, of table: String) -> String {
        let (name, own) = ("\(table.quoted).\(column.quoted)", "oid = \(table.quoted).id AND col = \(column.literal)")
        return "coalesce((SELECT exact FROM mirror_exact WHERE \(own) AND seconds = \(name)), \(name))"
    }
}

extension ColumnForm {
    var isDate: Bool { attribute?.type == .date }
}
