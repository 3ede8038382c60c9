import Records
import Testing

@Suite struct PortNumberTests {
    @Test(arguments: [
        "http://127.0.0.1", "http://127.0.0.1:1/", "https://127.0.0.1:65535?a", "http://[::1]", "http://[::1]:8080/a:0",
        "http://name:/", "https://user:99999@name/", "http://name/?at=b:99999", "http://name#:0", "no address",
    ])
    func usable(_ address: String) { #expect(PortNumber.isUsable(in: address)) }

    @Test(arguments: [
        "http://127.0.0.1:0", "http://127.0.0.1:65536/", "https://name:99999?a", "http://[::1]:99999#b",
        "http://127.0.0.1:-1", "http://127.0.0.1:+80", "http://name:99999999999999999999999/", "http://name:8o/",
        "http://user@name:0/",
    ])
    func unusable(_ address: String) { #expect(!PortNumber.isUsable(in: address)) }
}
