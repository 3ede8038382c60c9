import Records

/// The short numbers that stand for users and record types inside the file.
///
/// Rows of both are only ever added, so a copy of these maps stays right for all it holds.
struct StoreNames: Sendable {
    private(set) var users: [Int64: UserID] = [:]
    private(set) var userNumbers: [UserID: Int64] = [:]
    private(set) var types: [Int64: String] = [:]
    private(set) var typeNumbers: [String: Int64] = [:]

    /// How many of both are known.
    var count: Int { users.count + types.count }

    mutating func merge(_ other: StoreNames) {
        users.merge(other.users) { kept, _ in kept }
        userNumbers.merge(other.userNumbers) { kept, _ in kept }
        types.merge(other.types) { kept, _ in kept }
        typeNumbers.merge(other.typeNumbers) { kept, _ in kept }
    }

    mutating func add(user: UserID, number: Int64) {
        users[number] = user
        userNumbers[user] = number
    }

    mutating func add(type: String, number: Int64) {
        types[number] = type
        typeNumbers[type] = number
    }
}
