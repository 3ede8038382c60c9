import Testing
import Wire

@testable import ZoneKit

/// The identity of participants who were found by an address.
@Suite struct IdentityTests {
    private func person(email: String? = nil, phone: String? = nil) -> CKShare.Participant {
        CKShare.Participant(
            inviting: ClientIdentity(lookup: .init(emailAddress: email, phoneNumber: phone)),
            callerName: nil
        )
    }

    @Test(
        "participants are the same person in every spelling of their address",
        arguments: [
            ("ada@xn--bcher-kva.example", "Ada@b\u{FC}cher.example", true),
            ("ada@example.org", "ADA@EXAMPLE.ORG", true),
            ("u\u{308}@example.org", "\u{FC}@example.org", true),
            ("ada@b\u{FC}cher.example", "ada@bucher.example", false),
        ]
    )
    func addresses(one: String, other: String, isSame: Bool) {
        #expect(person(email: one).isEqual(person(email: other)) == isSame)
    }

    @Test("participants are the same person in every spelling of their number")
    func numbers() {
        #expect(person(phone: "+49 30 1234567").isEqual(person(phone: "0049301234567")))
        #expect(!person(phone: "+49 30 1234567").isEqual(person(phone: "+44 30 1234567")))
    }
}
