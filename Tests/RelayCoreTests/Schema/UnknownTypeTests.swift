import Records
import RelayCore
import Testing
import Wire

@Suite struct UnknownTypeTests {
    private let user = UserID("_00000000000000000000000000000001")

    /// Applies if the caller cannot extend the schema, and to invalid type names: a third-party client's test suite
    /// expects it for a signed-in user, whose writes otherwise create types.
    @Test(arguments: ["Other", "blah blah", "1"]) func anUnknownTypeIsNotFoundForAnyName(_ name: String) throws {
        let input = #"{"recordName":"n","recordType":"\#(name)","fields":{}}"#
        let record = try RecordInput(JSONDocument(parsing: Array(input.utf8)).root)
        func code(mayGrow: Bool) -> ErrorCode? {
            do throws(RelayError) {
                _ = try FieldPreparation(
                    record,
                    ofType: CompiledRecordType(name, in: Schema()),
                    in: ZoneID(ZoneID.defaultName, owner: Zone.publicOwner),
                    of: DatabaseAddress(scope: .public, caller: Caller(.user(user), deviceID: "phone")),
                    rules: SchemaRules(mayGrow: mayGrow, scope: .public, limits: Limits())
                )
                return nil
            } catch {
                return error.code
            }
        }
        #expect(code(mayGrow: false) == .notFound)
        #expect(code(mayGrow: true) == (name == "Other" ? nil : .notFound))
    }
}
