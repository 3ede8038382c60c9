import Testing
import ZoneMirror

/// The complete truth table of permission checks.
///
/// See Permissions.md, "Questions".
@Suite struct PermissionTests {
    typealias Facts = Permissions.Facts

    static let kinds: [(String, Facts.Kind)] = [
        ("local", .local), ("private", .privateStore), ("public-mine", .publicStore(isMine: true)),
        ("public-other", .publicStore(isMine: false)),
        ("public-granted", .publicStore(isMine: false, isGranted: true)),
        ("public-closed", .publicStore(isMine: true, isOpen: false)),
        ("shared-RO", .sharedStore(canWrite: false, isRoot: false)),
        ("shared-RW", .sharedStore(canWrite: true, isRoot: false)),
        ("shared root", .sharedStore(canWrite: true, isRoot: true)),
    ]
    static let stages: [Facts.Stage] = [.temporary, .unexported, .exported]
    static let statuses: [Account.Status] = [.signedIn, .signedOut, .paused]

    /// The table of the reference: rows are kinds; columns are temporary, unexported, exported.
    ///
    /// Except for local and private stores, it applies only while signed in.
    static let update: [String: [Bool]] = [
        "local": [true, true, true], "private": [true, true, true], "public-mine": [true, true, true],
        "public-other": [true, true, false], "shared-RO": [true, false, false], "shared-RW": [true, true, true],
        "shared root": [true, true, true], "public-granted": [true, true, true],
        "public-closed": [false, false, false],
    ]
    static let delete: [String: [Bool]] = [
        "local": [true, true, true], "private": [true, true, true], "public-mine": [true, true, true],
        "public-other": [true, true, false], "shared-RO": [true, false, false], "shared-RW": [true, true, true],
        "shared root": [true, false, false], "public-granted": [true, true, true],
        "public-closed": [false, false, false],
    ]

    @Test(arguments: statuses) func permissionsMatchTheTruthTable(_ status: Account.Status) {
        for (name, kind) in Self.kinds {
            let isFree = name == "local" || name == "private" || status == .signedIn
            for (column, stage) in Self.stages.enumerated() {
                let facts = Facts(stage: stage, kind: kind, status: status)
                let place = "\(name), \(stage), \(status)"
                #expect(
                    Permissions.canUpdate(facts) == (isFree && Self.update[name]?[column] == true),
                    "update \(place)"
                )
                #expect(
                    Permissions.canDelete(facts) == (isFree && Self.delete[name]?[column] == true),
                    "delete \(place)"
                )
            }
        }
    }

    @Test func aReadOnlyStoreAllowsNothing() {
        for (_, kind) in Self.kinds {
            for stage in Self.stages {
                let facts = Facts(stage: stage, kind: kind, status: .signedIn, isReadOnly: true)
                #expect(!Permissions.canUpdate(facts))
                #expect(!Permissions.canDelete(facts))
            }
        }
    }
}
