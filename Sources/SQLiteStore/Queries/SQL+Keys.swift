import GRDBSQLite
import Records

extension SQL {
    /// Binds a key in the form stored in `field_value`, in which SQLite's order is the order of the keys.
    ///
    /// `absent` is stored as the number that is less than all others.
    func bind(_ index: Int32, _ key: QueryKey) {
        switch key {
        case .absent: bind(index, -Double.infinity)
        case .number(let number): bind(index, number)
        case .real(let number): bind(index, number)
        case .text(let text): bind(index, text)
        case .bytes(let bytes): bind(index, blob: bytes)
        }
    }

    /// Reads a key.
    func key(_ column: Int32) -> QueryKey {
        switch valueType(column) {
        case SQLITE_INTEGER: return .number(int(column))
        case SQLITE_FLOAT:
            let number = real(column)
            return number == -Double.infinity ? .absent : .real(number)
        case SQLITE_BLOB: return .bytes(blob(column))
        default: return .text(text(column))
        }
    }
}
