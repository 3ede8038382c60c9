import Foundation
import Records
package import RelayCore
import Synchronization

/// What every directory checks before it writes.
extension AccountDirectory {
    /// Returns the login of a new account.
    ///
    /// - Throws: `invalid` for what is no address, and for an operator's name without the operator's password.
    package func checkedLogin(email: String, password: String) throws(DirectoryError) -> String {
        if let objection = EmailAddress.objection(to: email) { throw .invalid(objection) }
        guard let login = AccountRules.canonicalEmail(email) else {
            throw .invalid("\(email) is not an e-mail address.")
        }
        if try operators().contains(where: { $0.name == Operator.canonicalName(login) }),
            try self.operator(name: login, password: password) == nil
        {
            throw .invalid("\(login) is an operator of this relay. Use the operator's password: both are one sign-in.")
        }
        return login
    }

    /// Returns the name with which an operator may use a link.
    ///
    /// - Throws: `invalid` for what is no name, and for the address of an account without its password.
    package func checkedOperatorName(
        _ name: String,
        link code: String,
        password: String
    ) throws(DirectoryError) -> String {
        guard let name = Operator.canonicalName(name) else {
            throw .invalid("Choose a name of 1 to 128 bytes, such as your e-mail address.")
        }
        if try operatorLink(code).name == nil, try account(email: name) != nil,
            try account(email: name, password: password) == nil
        {
            throw .invalid("\(name) has an account on this relay. Use its password: both are one sign-in.")
        }
        return name
    }
}

/// Limits and texts that every directory keeps to.
package enum DirectoryRules {
    /// The maximum number of passkeys per operator.
    package static let mostPasskeys = 20
    /// Only about this many of the newest audit entries are kept.
    package static let keptAuditEntries: Int64 = 100_000
    /// The oldest of them are removed with each entry whose number is a multiple of this.
    package static let auditTrimInterval: Int64 = 1_000
    /// How often the use of a token or session is recorded.
    package static let useInterval = Duration.seconds(60)

    /// Returns a container's display name as it is stored; `nil` for an empty one.
    package static func title(_ title: String?) throws(DirectoryError) -> String? {
        let title = title?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
        guard title.count <= 100, !title.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { throw .invalid("A display name has at most 100 characters, on one line.") }
        return title.isEmpty ? nil : title
    }

    package static func devName(_ name: String) throws(DirectoryError) {
        guard AccountRules.isDevName(name) else {
            throw .invalid("A dev user's name is 1 to 64 letters, digits, '.', '_', '-', '@' or '+'.")
        }
    }

    /// Returns a telephone number as it is stored.
    package static func phone(_ phone: String?) throws(DirectoryError) -> String? {
        if let objection = phone.flatMap(PhoneNumber.objection) { throw .invalid(objection) }
        return phone.flatMap(AccountRules.canonicalPhone)
    }
}

/// The entry that a directory's next write adds to the audit log in its own transaction.
package final class PendingAuditEntry: Sendable {
    private let entry = Mutex<AuditEntry?>(nil)

    package init() {}

    /// Runs `body`, whose first write takes the entry; calls `note` afterwards if `body` has written nothing.
    package func run<Value>(
        _ new: AuditEntry,
        _ body: () throws -> Value,
        otherwise note: (AuditEntry) throws -> Void
    ) throws -> Value {
        entry.withLock { $0 = new }
        defer { _ = take() }
        let value = try body()
        if let unused = take() { try note(unused) }
        return value
    }

    package func take() -> AuditEntry? {
        entry.withLock { entry in
            defer { entry = nil }
            return entry
        }
    }
}

/// The containers that a directory has found, from which a running relay never removes one.
///
/// Each new device looks its container up with `--dev`.
package final class SeenContainers: Sendable {
    private let names = Mutex<Set<String>>([])

    package init() {}

    package func contains(_ name: String) -> Bool { names.withLock { $0.contains(name) } }

    package func insert(_ name: String) {
        names.withLock { seen in
            // A limit, since with `--dev` any client may name a container.
            if seen.count > 10_000 { seen = [] }
            seen.insert(name)
        }
    }

    package func remove(_ name: String) { names.withLock { _ = $0.remove(name) } }
}

/// Those who want to know of revocations.
package final class RevocationListeners: Sendable {
    private let bodies = Mutex<[@Sendable (UInt64) -> Void]>([])

    package init() {}

    package func add(_ body: @escaping @Sendable (UInt64) -> Void) { bodies.withLock { $0.append(body) } }

    package func call(_ generation: UInt64) { for body in bodies.withLock({ $0 }) { body(generation) } }
}
