declare <8 x double> @llvm.fabs.v8f64(<8 x double>)
declare <8 x double> @llvm.sqrt.v8f64(<8 x double>)
declare <8 x double> @llvm.fma.v8f64(<8 x double>, <8 x double>, <8 x double>)
declare i64 @llvm.smin.i64(i64, i64)
declare <4 x double> @llvm.masked.load.v4f64.p0(ptr, i32, <4 x i1>, <4 x double>)
declare <4 x double> @llvm.fabs.v4f64(<4 x double>)
declare <4 x double> @llvm.sqrt.v4f64(<4 x double>)
declare <4 x i64> @llvm.masked.load.v4i64.p0(ptr, i32, <4 x i1>, <4 x i64>)
declare <4 x double> @llvm.fma.v4f64(<4 x double>, <4 x double>, <4 x double>)
declare void @llvm.masked.store.v4f64.p0(<4 x double>, ptr, i32, <4 x i1>)
declare void @llvm.masked.store.v4i64.p0(<4 x i64>, ptr, i32, <4 x i1>)
define void @jaxwarp_wide(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 8
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %p3.at = getelementptr ptr, ptr %buffers, i64 3
  %p3 = load ptr, ptr %p3.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %g3.at = getelementptr i64, ptr %geometry, i64 3
  %g3 = load i64, ptr %g3.at, align 8, !invariant.load !0
  %b0.0 = mul i64 8, %g0
  %b0 = add i64 0, %b0.0
  %b1.0 = mul i64 8, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 16, %g2
  %b2 = add i64 %b1, %b2.0
  %b3.0 = mul i64 16, %g3
  %b3 = add i64 %b2, %b3.0
  %streams = icmp ugt i64 %b3, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v60, %stored55 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr double, ptr %p0, i64 %v3
  %v6 = load <8 x double>, ptr %v5, align 8
  %v7 = call <8 x double> @llvm.fabs.v8f64(<8 x double> %v6)
  %v8 = call <8 x double> @llvm.sqrt.v8f64(<8 x double> %v7)
  %v9 = getelementptr i64, ptr %p1, i64 %v3
  %v10 = load <8 x i64>, ptr %v9, align 8
  %v11 = icmp eq <8 x i64> splat (i64 1000), splat (i64 0)
  %v12 = icmp eq <8 x i64> splat (i64 1000), splat (i64 -1)
  %v13 = select <8 x i1> %v11, <8 x i64> splat (i64 1), <8 x i64> splat (i64 1000)
  %v14 = select <8 x i1> %v12, <8 x i64> splat (i64 1), <8 x i64> %v13
  %v15 = srem <8 x i64> %v10, %v14
  %v16 = sitofp <8 x i64> %v15 to <8 x double>
  %v17 = call <8 x double> @llvm.fma.v8f64(<8 x double> %v16, <8 x double> splat (double 0x3FD0000000000000), <8 x double> %v8)
  %v18 = getelementptr double, ptr %p2, i64 %v3
  %v22 = ptrtoint ptr %v18 to i64
  %v23 = and i64 %v22, %lines
  %v24 = icmp eq i64 %v23, 0
  br i1 %v24, label %stream19, label %cache20
stream19:
  store <8 x double> %v17, ptr %v18, align 64, !nontemporal !4
  br label %stored21
cache20:
  store <8 x double> %v17, ptr %v18, align 8
  br label %stored21
stored21:
  %v25 = shl <8 x i64> %v10, splat (i64 3)
  %v26 = icmp eq <8 x i64> splat (i64 7), splat (i64 0)
  %v27 = icmp eq <8 x i64> splat (i64 7), splat (i64 -1)
  %v28 = select <8 x i1> %v26, <8 x i64> splat (i64 1), <8 x i64> splat (i64 7)
  %v29 = select <8 x i1> %v27, <8 x i64> splat (i64 1), <8 x i64> %v28
  %v30 = sdiv <8 x i64> %v25, %v29
  %v31 = mul <8 x i64> %v30, %v29
  %v32 = sub <8 x i64> %v25, %v31
  %v33 = xor <8 x i64> %v32, %v29
  %v34 = icmp slt <8 x i64> %v33, splat (i64 0)
  %v35 = icmp ne <8 x i64> %v32, splat (i64 0)
  %v36 = and <8 x i1> %v34, %v35
  %v37 = sext <8 x i1> %v36 to <8 x i64>
  %v38 = add <8 x i64> %v30, %v37
  %v39 = sub <8 x i64> splat (i64 0), %v25
  %v40 = select <8 x i1> %v27, <8 x i64> %v39, <8 x i64> %v38
  %v41 = select <8 x i1> %v26, <8 x i64> splat (i64 0), <8 x i64> %v40
  %v42 = fcmp olt <8 x double> %v6, splat (double 0xC3E0000000000000)
  %v43 = select <8 x i1> %v42, <8 x double> splat (double 0xC3E0000000000000), <8 x double> %v6
  %v44 = fcmp olt <8 x double> splat (double 0x43DFFFFFFFFFFFFF), %v43
  %v45 = select <8 x i1> %v44, <8 x double> splat (double 0x43DFFFFFFFFFFFFF), <8 x double> %v43
  %v46 = fcmp uno <8 x double> %v6, %v6
  %v47 = select <8 x i1> %v46, <8 x double> splat (double 0x0000000000000000), <8 x double> %v45
  %v48 = fptosi <8 x double> %v47 to <8 x i64>
  %v49 = fcmp oge <8 x double> %v6, splat (double 0x43E0000000000000)
  %v50 = select <8 x i1> %v49, <8 x i64> splat (i64 9223372036854775807), <8 x i64> %v48
  %v51 = add <8 x i64> %v41, %v50
  %v52 = getelementptr i64, ptr %p3, i64 %v3
  %v56 = ptrtoint ptr %v52 to i64
  %v57 = and i64 %v56, %lines
  %v58 = icmp eq i64 %v57, 0
  br i1 %v58, label %stream53, label %cache54
stream53:
  store <8 x i64> %v51, ptr %v52, align 64, !nontemporal !4
  br label %stored55
cache54:
  store <8 x i64> %v51, ptr %v52, align 8
  br label %stored55
stored55:
  %v59 = add i64 %v3, 8
  %v60 = call i64 asm "", "=r,0"(i64 %v59)
  %v61 = icmp sle i64 %v60, %last_chunk
  br i1 %v61, label %chunk, label %rest, !llvm.loop !1
rest:
  %v62 = phi i64 [ %col_begin, %row ], [ %v60, %stored55 ]
  %v63 = icmp slt i64 %v62, %col_end
  br i1 %v63, label %partial, label %past
partial:
  br label %part
part:
  %v64 = phi i64 [ %v62, %partial ], [ %v116, %part ]
  %v65 = sub i64 %col_end, %v64
  %v66 = call i64 @llvm.smin.i64(i64 %v65, i64 4)
  %v67 = trunc i64 %v66 to i32
  %v68 = insertelement <4 x i32> poison, i32 %v67, i32 0
  %v69 = shufflevector <4 x i32> %v68, <4 x i32> poison, <4 x i32> zeroinitializer
  %v70 = icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>, %v69
  %v71 = trunc nuw nsw i64 %v64 to i32
  %v72 = getelementptr double, ptr %p0, i64 %v64
  %v73 = call <4 x double> @llvm.masked.load.v4f64.p0(ptr %v72, i32 8, <4 x i1> %v70, <4 x double> zeroinitializer)
  %v74 = freeze <4 x double> %v73
  %v75 = call <4 x double> @llvm.fabs.v4f64(<4 x double> %v74)
  %v76 = call <4 x double> @llvm.sqrt.v4f64(<4 x double> %v75)
  %v77 = getelementptr i64, ptr %p1, i64 %v64
  %v78 = call <4 x i64> @llvm.masked.load.v4i64.p0(ptr %v77, i32 8, <4 x i1> %v70, <4 x i64> zeroinitializer)
  %v79 = freeze <4 x i64> %v78
  %v80 = icmp eq <4 x i64> splat (i64 1000), splat (i64 0)
  %v81 = icmp eq <4 x i64> splat (i64 1000), splat (i64 -1)
  %v82 = select <4 x i1> %v80, <4 x i64> splat (i64 1), <4 x i64> splat (i64 1000)
  %v83 = select <4 x i1> %v81, <4 x i64> splat (i64 1), <4 x i64> %v82
  %v84 = srem <4 x i64> %v79, %v83
  %v85 = sitofp <4 x i64> %v84 to <4 x double>
  %v86 = call <4 x double> @llvm.fma.v4f64(<4 x double> %v85, <4 x double> splat (double 0x3FD0000000000000), <4 x double> %v76)
  %v87 = getelementptr double, ptr %p2, i64 %v64
  call void @llvm.masked.store.v4f64.p0(<4 x double> %v86, ptr %v87, i32 8, <4 x i1> %v70)
  %v88 = shl <4 x i64> %v79, splat (i64 3)
  %v89 = icmp eq <4 x i64> splat (i64 7), splat (i64 0)
  %v90 = icmp eq <4 x i64> splat (i64 7), splat (i64 -1)
  %v91 = select <4 x i1> %v89, <4 x i64> splat (i64 1), <4 x i64> splat (i64 7)
  %v92 = select <4 x i1> %v90, <4 x i64> splat (i64 1), <4 x i64> %v91
  %v93 = sdiv <4 x i64> %v88, %v92
  %v94 = mul <4 x i64> %v93, %v92
  %v95 = sub <4 x i64> %v88, %v94
  %v96 = xor <4 x i64> %v95, %v92
  %v97 = icmp slt <4 x i64> %v96, splat (i64 0)
  %v98 = icmp ne <4 x i64> %v95, splat (i64 0)
  %v99 = and <4 x i1> %v97, %v98
  %v100 = sext <4 x i1> %v99 to <4 x i64>
  %v101 = add <4 x i64> %v93, %v100
  %v102 = sub <4 x i64> splat (i64 0), %v88
  %v103 = select <4 x i1> %v90, <4 x i64> %v102, <4 x i64> %v101
  %v104 = select <4 x i1> %v89, <4 x i64> splat (i64 0), <4 x i64> %v103
  %v105 = fcmp olt <4 x double> %v74, splat (double 0xC3E0000000000000)
  %v106 = select <4 x i1> %v105, <4 x double> splat (double 0xC3E0000000000000), <4 x double> %v74
  %v107 = fcmp olt <4 x double> splat (double 0x43DFFFFFFFFFFFFF), %v106
  %v108 = select <4 x i1> %v107, <4 x double> splat (double 0x43DFFFFFFFFFFFFF), <4 x double> %v106
  %v109 = fcmp uno <4 x double> %v74, %v74
  %v110 = select <4 x i1> %v109, <4 x double> splat (double 0x0000000000000000), <4 x double> %v108
  %v111 = fptosi <4 x double> %v110 to <4 x i64>
  %v112 = fcmp oge <4 x double> %v74, splat (double 0x43E0000000000000)
  %v113 = select <4 x i1> %v112, <4 x i64> splat (i64 9223372036854775807), <4 x i64> %v111
  %v114 = add <4 x i64> %v104, %v113
  %v115 = getelementptr i64, ptr %p3, i64 %v64
  call void @llvm.masked.store.v4i64.p0(<4 x i64> %v114, ptr %v115, i32 8, <4 x i1> %v70)
  %v116 = add i64 %v64, 4
  %v117 = icmp slt i64 %v116, %col_end
  br i1 %v117, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
