import RelayCore
import Testing

@Suite struct TraceContextTests {
    @Test func aHeaderIsParsed() throws {
        let context = try #require(
            TraceContext(traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        )
        #expect(context.trace.text == "0af7651916cd43dd8448eb211c80319c")
        #expect(TraceContext.digits(context.span) == "b7ad6b7169203331")
        #expect(context.isSampled)
        #expect(
            TraceContext(traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")?.isSampled == false
        )
        // A later version with more members behind the known ones; and an ID that begins with zeros.
        let later = TraceContext(traceparent: "cc-00000000000000000000000000000001-0000000000000002-03-what")
        #expect(later?.trace.text == "00000000000000000000000000000001" && later?.isSampled == true)
    }

    @Test(arguments: [
        "", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "0é-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
    ])
    func invalidHeadersAreIgnored(_ header: String) {
        #expect(TraceContext(traceparent: header) == nil)
    }
}
