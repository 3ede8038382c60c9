import Records
import Testing

/// The rights that a caller's roles add up to.
@Suite struct RightsTests {
    struct Case: CustomTestStringConvertible {
        var testDescription: String
        var grants: [Role: Rights]
        /// The caller's roles besides `_world`.
        var roles: [Role] = [.authenticated]
        /// For records of others.
        var others: Rights
        /// For the caller's own records.
        var own: Rights
    }

    private static let editor = Role("Editor")

    static let cases = [
        Case(
            testDescription: "the default grants",
            grants: RecordType.defaultGrants,
            others: [.read, .create],
            own: [.read, .create, .write]
        ),
        Case(
            testDescription: "WRITE includes READ",
            grants: [.world: .write],
            others: [.read, .write],
            own: [.read, .write]
        ),
        Case(
            testDescription: "a creator's WRITE says nothing of other records",
            grants: [.creator: .write],
            others: [],
            own: [.read, .write]
        ),
        Case(
            testDescription: "CREATE includes reading and writing one's own records",
            grants: [.authenticated: .create],
            others: .create,
            own: [.read, .create, .write]
        ),
        Case(
            testDescription: "a creator's CREATE is everybody's who is signed in",
            grants: [.creator: .create],
            others: .create,
            own: [.read, .create, .write]
        ),
        Case(
            testDescription: "CREATE of a role of the schema's own",
            grants: [editor: .create],
            roles: [.authenticated, editor],
            others: .create,
            own: [.read, .create, .write]
        ),
        Case(
            testDescription: "a role that the caller does not have",
            grants: [editor: [.create, .write]],
            others: [],
            own: []
        ),
        Case(testDescription: "READ includes nothing", grants: [.authenticated: .read], others: .read, own: .read),
        Case(
            testDescription: "WRITE does not include CREATE",
            grants: [editor: .write],
            roles: [.authenticated, editor],
            others: [.read, .write],
            own: [.read, .write]
        ),
        Case(
            testDescription: "nobody is signed in",
            grants: [.creator: [.create, .write], .authenticated: .write, .world: .read],
            roles: [],
            others: .read,
            own: .read
        ),
    ]

    @Test(arguments: cases) func rights(_ row: Case) {
        let type = RecordType(grants: row.grants)
        let roles = [.world] + row.roles
        #expect(type.rights(of: roles) == row.others)
        let isSignedIn = roles.contains(.authenticated)
        #expect(type.rights(of: isSignedIn ? roles + [.creator] : roles) == row.own)
    }
}
