//! Socket addresses for the columns IP and PORT of the socket tables.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Copies an address; returns `None` for NULL, an unknown family (Unix sockets: IP empty, PORT 0) or a length
/// too short.
///
/// # Safety
/// `address` is NULL or points at `length` readable bytes.
pub unsafe fn socket(address: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family is the first member and was checked to be within `length`; alignment is not assumed.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match i32::from(family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the length was checked for this family.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the length was checked for this family.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_with_an_address_have_one() {
        let v4 = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 3306u16.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::new(127, 0, 0, 1)).to_be() },
            sin_zero: [0; 8],
        };
        let pointer = std::ptr::from_ref(&v4).cast();
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: a whole address.
        let seen = unsafe { socket(pointer, length) };
        assert_eq!(seen.map(|a| a.to_string()).as_deref(), Some("127.0.0.1:3306"));
        // SAFETY: within the address, too short for the family.
        assert_eq!(unsafe { socket(pointer, length - 1) }, None);
        let unix = libc::sockaddr { sa_family: libc::AF_UNIX as libc::sa_family_t, sa_data: [0; 14] };
        // SAFETY: a whole address.
        assert_eq!(unsafe { socket(&unix, 16) }, None);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { socket(std::ptr::null(), 16) }, None);
    }
}
