declare i4 @llvm.cttz.i4(i4, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, i32, <4 x i1>, <4 x float>)
define void @jaxwarp_histogram(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %v64 = alloca [4 x ptr], align 16
  %v107 = alloca [4 x ptr], align 16
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %last_chunk = sub i64 %col_end, 4
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %a2 = load i32, ptr %p2, align 4
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %own = icmp ne i64 %g2, 0
  %v1 = icmp eq i64 %row_begin, 0
  %v2 = icmp eq i64 %row_end, 1
  %v3 = and i1 %v1, %v2
  %v4 = icmp eq i64 %col_begin, 0
  %v5 = icmp eq i64 %col_end, %g0
  %v6 = and i1 %v4, %v5
  %v7 = icmp slt i64 %row_begin, %row_end
  %v8 = icmp sle i64 %col_begin, %last_chunk
  %v13 = sitofp i32 %a2 to float
  %v14 = insertelement <4 x float> poison, float %v13, i32 0
  %v15 = shufflevector <4 x float> %v14, <4 x float> poison, <4 x i32> zeroinitializer
  %v26 = sub i32 %a2, 1
  %v27 = insertelement <4 x i32> poison, i32 %v26, i32 0
  %v28 = shufflevector <4 x i32> %v27, <4 x i32> poison, <4 x i32> zeroinitializer
  %v31 = trunc i64 %g1 to i32
  %v32 = insertelement <4 x i32> poison, i32 %v31, i32 0
  %v33 = shufflevector <4 x i32> %v32, <4 x i32> poison, <4 x i32> zeroinitializer
  %v37 = and i1 %v3, %v6
  %v38 = or i1 %own, %v37
  br i1 %v7, label %row, label %end
row:
  br i1 %v8, label %full, label %rest
full:
  br label %chunk
chunk:
  %v9 = phi i64 [ %col_begin, %full ], [ %v77, %updated41 ]
  %v10 = trunc nuw nsw i64 %v9 to i32
  %v11 = getelementptr float, ptr %p0, i64 %v9
  %v12 = load <4 x float>, ptr %v11, align 4
  %v16 = fmul <4 x float> %v12, %v15
  %v17 = fcmp olt <4 x float> %v16, splat (float 0xC1E0000000000000)
  %v18 = select <4 x i1> %v17, <4 x float> splat (float 0xC1E0000000000000), <4 x float> %v16
  %v19 = fcmp olt <4 x float> splat (float 0x41DFFFFFE0000000), %v18
  %v20 = select <4 x i1> %v19, <4 x float> splat (float 0x41DFFFFFE0000000), <4 x float> %v18
  %v21 = fcmp uno <4 x float> %v16, %v16
  %v22 = select <4 x i1> %v21, <4 x float> splat (float 0x0000000000000000), <4 x float> %v20
  %v23 = fptosi <4 x float> %v22 to <4 x i32>
  %v24 = fcmp oge <4 x float> %v16, splat (float 0x41E0000000000000)
  %v25 = select <4 x i1> %v24, <4 x i32> splat (i32 2147483647), <4 x i32> %v23
  %v29 = icmp slt <4 x i32> %v25, %v28
  %v30 = select <4 x i1> %v29, <4 x i32> %v25, <4 x i32> %v28
  %v34 = add <4 x i32> %v30, %v33
  %v35 = icmp ult <4 x i32> %v34, %v30
  %v36 = select <4 x i1> %v35, <4 x i32> %v34, <4 x i32> %v30
  br i1 %v38, label %own39, label %others40
own39:
  %v42 = sext <4 x i32> %v36 to <4 x i64>
  %v43 = extractelement <4 x i64> %v42, i32 0
  %v44 = getelementptr i32, ptr %p1, i64 %v43
  %v45 = extractelement <4 x i64> %v42, i32 1
  %v46 = getelementptr i32, ptr %p1, i64 %v45
  %v47 = extractelement <4 x i64> %v42, i32 2
  %v48 = getelementptr i32, ptr %p1, i64 %v47
  %v49 = extractelement <4 x i64> %v42, i32 3
  %v50 = getelementptr i32, ptr %p1, i64 %v49
  %v51 = extractelement <4 x i32> splat (i32 1), i64 0
  %v52 = load i32, ptr %v44, align 4
  %v53 = add i32 %v52, %v51
  store i32 %v53, ptr %v44, align 4
  %v54 = extractelement <4 x i32> splat (i32 1), i64 1
  %v55 = load i32, ptr %v46, align 4
  %v56 = add i32 %v55, %v54
  store i32 %v56, ptr %v46, align 4
  %v57 = extractelement <4 x i32> splat (i32 1), i64 2
  %v58 = load i32, ptr %v48, align 4
  %v59 = add i32 %v58, %v57
  store i32 %v59, ptr %v48, align 4
  %v60 = extractelement <4 x i32> splat (i32 1), i64 3
  %v61 = load i32, ptr %v50, align 4
  %v62 = add i32 %v61, %v60
  store i32 %v62, ptr %v50, align 4
  br label %updated41
others40:
  %v63 = getelementptr i32, ptr %p1, <4 x i32> %v36
  store <4 x ptr> %v63, ptr %v64, align 16
  br label %lane65
lane65:
  %v67 = phi i4 [ -1, %others40 ], [ %v68, %lane65 ]
  %v69 = call i4 @llvm.cttz.i4(i4 %v67, i1 true)
  %v70 = zext i4 %v69 to i64
  %v71 = getelementptr ptr, ptr %v64, i64 %v70
  %v72 = load ptr, ptr %v71
  %v73 = atomicrmw add ptr %v72, i32 1 monotonic, align 4
  %v74 = sub i4 %v67, 1
  %v68 = and i4 %v67, %v74
  %v75 = icmp ne i4 %v68, 0
  br i1 %v75, label %lane65, label %lanes_done66
lanes_done66:
  br label %updated41
updated41:
  %v76 = add i64 %v9, 4
  %v77 = call i64 asm "", "=r,0"(i64 %v76)
  %v78 = icmp sle i64 %v77, %last_chunk
  br i1 %v78, label %chunk, label %rest, !llvm.loop !1
rest:
  %v79 = phi i64 [ %col_begin, %row ], [ %v77, %updated41 ]
  %v80 = icmp slt i64 %v79, %col_end
  br i1 %v80, label %partial, label %past
partial:
  %v81 = sub i64 %col_end, %v79
  %v82 = call i64 @llvm.smin.i64(i64 %v81, i64 4)
  %v83 = trunc i64 %v82 to i32
  %v84 = insertelement <4 x i32> poison, i32 %v83, i32 0
  %v85 = shufflevector <4 x i32> %v84, <4 x i32> poison, <4 x i32> zeroinitializer
  %v86 = icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>, %v85
  %v87 = trunc nuw nsw i64 %v79 to i32
  %v88 = getelementptr float, ptr %p0, i64 %v79
  %v89 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %v88, i32 4, <4 x i1> %v86, <4 x float> zeroinitializer)
  %v90 = freeze <4 x float> %v89
  %v91 = fmul <4 x float> %v90, %v15
  %v92 = fcmp olt <4 x float> %v91, splat (float 0xC1E0000000000000)
  %v93 = select <4 x i1> %v92, <4 x float> splat (float 0xC1E0000000000000), <4 x float> %v91
  %v94 = fcmp olt <4 x float> splat (float 0x41DFFFFFE0000000), %v93
  %v95 = select <4 x i1> %v94, <4 x float> splat (float 0x41DFFFFFE0000000), <4 x float> %v93
  %v96 = fcmp uno <4 x float> %v91, %v91
  %v97 = select <4 x i1> %v96, <4 x float> splat (float 0x0000000000000000), <4 x float> %v95
  %v98 = fptosi <4 x float> %v97 to <4 x i32>
  %v99 = fcmp oge <4 x float> %v91, splat (float 0x41E0000000000000)
  %v100 = select <4 x i1> %v99, <4 x i32> splat (i32 2147483647), <4 x i32> %v98
  %v101 = icmp slt <4 x i32> %v100, %v28
  %v102 = select <4 x i1> %v101, <4 x i32> %v100, <4 x i32> %v28
  %v103 = add <4 x i32> %v102, %v33
  %v104 = icmp ult <4 x i32> %v103, %v102
  %v105 = select <4 x i1> %v104, <4 x i32> %v103, <4 x i32> %v102
  %v106 = getelementptr i32, ptr %p1, <4 x i32> %v105
  store <4 x ptr> %v106, ptr %v107, align 16
  %v108 = bitcast <4 x i1> %v86 to i4
  br label %lane109
lane109:
  %v111 = phi i4 [ %v108, %partial ], [ %v112, %updated119 ]
  %v113 = call i4 @llvm.cttz.i4(i4 %v111, i1 true)
  %v114 = zext i4 %v113 to i64
  %v115 = getelementptr ptr, ptr %v107, i64 %v114
  %v116 = load ptr, ptr %v115
  br i1 %v38, label %own117, label %others118
own117:
  %v120 = load i32, ptr %v116, align 4
  %v121 = add i32 %v120, 1
  store i32 %v121, ptr %v116, align 4
  br label %updated119
others118:
  %v122 = atomicrmw add ptr %v116, i32 1 monotonic, align 4
  br label %updated119
updated119:
  %v123 = phi i32 [ %v120, %own117 ], [ %v122, %others118 ]
  %v124 = sub i4 %v111, 1
  %v112 = and i4 %v111, %v124
  %v125 = icmp ne i4 %v112, 0
  br i1 %v125, label %lane109, label %lanes_done110
lanes_done110:
  br label %past
past:
  br label %end
end:
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
