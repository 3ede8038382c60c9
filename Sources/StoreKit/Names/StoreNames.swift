package import Records

/// The numbers that stand for users and record types in the file.
///
/// Rows of both are only added, so a copy of these maps stays valid for everything it contains. Copies share almost all
/// entries, and adding one copies only the recent ones: it costs the same whether the relay knows a hundred users or a
/// hundred thousand.
package struct StoreNames: Sendable {
    private struct Maps {
        var users: [Int64: UserID] = [:]
        var userNumbers: [UserID: Int64] = [:]
        var types: [Int64: String] = [:]
        var typeNumbers: [String: Int64] = [:]

        var count: Int { users.count + types.count }

        mutating func add(user: UserID, number: Int64) {
            users[number] = user
            userNumbers[user] = number
        }

        mutating func add(type: String, number: Int64) {
            types[number] = type
            typeNumbers[type] = number
        }

        mutating func add(_ other: Maps) {
            for (number, user) in other.users { add(user: user, number: number) }
            for (number, type) in other.types { add(type: type, number: number) }
        }
    }

    private final class Merged: Sendable {
        let maps: Maps

        init(_ maps: Maps) { self.maps = maps }
    }

    /// With more recent entries than this, they are merged into the shared ones, which copies all.
    private static let mostRecent = 512

    private var merged = Merged(Maps())
    private var recent = Maps()

    package init() {}

    /// The number of known users and types.
    package var count: Int { merged.maps.count + recent.count }

    package func user(_ number: Int64) -> UserID? { merged.maps.users[number] ?? recent.users[number] }
    package func number(of user: UserID) -> Int64? { merged.maps.userNumbers[user] ?? recent.userNumbers[user] }
    package func type(_ number: Int64) -> String? { merged.maps.types[number] ?? recent.types[number] }
    package func number(ofType name: String) -> Int64? { merged.maps.typeNumbers[name] ?? recent.typeNumbers[name] }

    /// Adds what a copy of this value, or of an earlier state of it, has gained since.
    package mutating func merge(_ other: StoreNames) {
        for (number, user) in other.recent.users where merged.maps.users[number] == nil {
            recent.add(user: user, number: number)
        }
        for (number, type) in other.recent.types where merged.maps.types[number] == nil {
            recent.add(type: type, number: number)
        }
        guard recent.count > Self.mostRecent else { return }
        var all = merged.maps
        all.add(recent)
        merged = Merged(all)
        recent = Maps()
    }

    package mutating func add(user: UserID, number: Int64) { recent.add(user: user, number: number) }

    package mutating func add(type: String, number: Int64) { recent.add(type: type, number: number) }
}
